{{- define "spinney.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* As `spinney manifests` counts it: a change of the configuration restarts the roles. */ -}}
{{- define "spinney.digest" -}}
{{ printf "%s\n" (toYaml .Values.configuration) | sha256sum | trunc 16 }}
{{- end }}

{{- define "spinney.dashboard.arguments" -}}
{{- if .Values.dashboard.expose -}}
- --address
- 0.0.0.0:8088
- --token-file
- /etc/spinney-dashboard/token
{{- if .Values.dashboard.certificateSecret }}
- --cert-dir
- /etc/spinney-dashboard-certificate
{{- end }}
{{- end }}
{{- end }}

{{- define "spinney.dashboard.mounts" -}}
{{- if .Values.dashboard.expose -}}
- name: token
  mountPath: /etc/spinney-dashboard
  readOnly: true
{{- if .Values.dashboard.certificateSecret }}
- name: certificate
  mountPath: /etc/spinney-dashboard-certificate
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{- define "spinney.dashboard.volumes" -}}
{{- if .Values.dashboard.expose -}}
- name: token
  secret:
    secretName: {{ required "dashboard.tokenSecret is needed to expose the dashboard" .Values.dashboard.tokenSecret }}
{{- with .Values.dashboard.certificateSecret }}
- name: certificate
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}
{{- end }}
