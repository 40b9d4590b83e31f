package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// world is the server as seen through each of the clients.
type world struct {
	ctx       context.Context
	config    *rest.Config
	namespace string
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
	dynamic   dynamic.Interface
	clientset kubernetes.Interface
	metadata  metadata.Interface
	scale     scale.ScalesGetter
	runtime   client.Client
	cache     cache.Cache
}

func newWorld(ctx context.Context, config *rest.Config, namespace string) (*world, error) {
	w := &world{ctx: ctx, config: config, namespace: namespace}
	plain, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	w.discovery = memory.NewMemCacheClient(plain)
	w.mapper = restmapper.NewDeferredDiscoveryRESTMapper(w.discovery)
	if w.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.clientset, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	resolver := scale.NewDiscoveryScaleKindResolver(w.discovery)
	if w.scale, err = scale.NewForConfig(config, w.mapper, dynamic.LegacyAPIPathResolverFunc, resolver); err != nil {
		return nil, err
	}
	if w.runtime, err = client.New(config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, err
	}
	return w, w.startCache()
}

func (w *world) startCache() error {
	options := cache.Options{Scheme: scheme.Scheme, DefaultNamespaces: map[string]cache.Config{w.namespace: {}}}
	var err error
	if w.cache, err = cache.New(w.config, options); err != nil {
		return err
	}
	go w.cache.Start(w.ctx) //nolint:errcheck // a cache that does not start is seen by its readers
	return nil
}

// kind is one kind under trial: what the server says of it, and the sample.
type kind struct {
	*world
	report     *report
	gvk        schema.GroupVersionKind
	sample     sample
	gvr        schema.GroupVersionResource
	namespaced bool
	verbs      map[string]string // verb, and subresource/verb -> how it is called
}

func (k *kind) discover() error {
	mapping, err := k.mapper.RESTMapping(k.gvk.GroupKind(), k.gvk.Version)
	if err != nil {
		return err
	}
	k.gvr, k.namespaced = mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace
	resources, err := k.discovery.ServerResourcesForGroupVersion(k.gvk.GroupVersion().String())
	if err != nil {
		return err
	}
	k.verbs = map[string]string{}
	for _, each := range resources.APIResources {
		if each.Name != k.gvr.Resource && !strings.HasPrefix(each.Name, k.gvr.Resource+"/") {
			continue
		}
		for _, verb := range each.Verbs {
			k.verbs[strings.TrimPrefix(strings.TrimPrefix(each.Name, k.gvr.Resource)+"/", "/")+verb] = each.Name
		}
	}
	return nil
}

func (k *kind) has(verb string) bool { return k.verbs[verb] != "" }

// name is unique in the cluster. Group and version are in it: some kinds are served under two.
func (k *kind) name(suffix string) string {
	group, _, _ := strings.Cut(k.gvk.Group, ".")
	return strings.Join([]string{k.namespace, group + k.gvk.Version, suffix}, "-")
}

// object is the sample under a name; in its strings UNIQUE becomes the name and NAMESPACE the namespace.
func (k *kind) object(suffix string) *unstructured.Unstructured {
	name := k.name(suffix)
	obj := &unstructured.Unstructured{Object: filled(k.sample.Object, k.words(name)).(map[string]any)}
	if obj.GetName() == "" {
		obj.SetName(name)
	}
	if k.namespaced {
		obj.SetNamespace(k.namespace)
	}
	return obj
}

func (k *kind) words(name string) *strings.Replacer {
	return strings.NewReplacer("UNIQUE", name, "NAMESPACE", k.namespace)
}

func filled(value any, words *strings.Replacer) any {
	switch v := value.(type) {
	case string:
		return words.Replace(v)
	case map[string]any:
		made := make(map[string]any, len(v))
		for key, item := range v {
			made[words.Replace(key)] = filled(item, words)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i, item := range v {
			made[i] = filled(item, words)
		}
		return made
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// typed is the sample as an object of the Go type of its kind, nil for kinds without one.
func (k *kind) typed(suffix string) client.Object {
	made, err := scheme.Scheme.New(k.gvk)
	if err != nil {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(k.object(suffix).Object, made); err != nil {
		panic(err)
	}
	return made.(client.Object)
}

func (k *kind) try(clientName, name string, try func() error) bool {
	return k.report.step(clientName, name, try)
}

// eventually waits for what the server does by and by.
func eventually(what string, done func() (bool, error)) error {
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if ok, last = done(); ok {
			return nil
		}
	}
	return fmt.Errorf("waited %s for %s, last error: %v", patience, what, last)
}

// refused is nil if the error is of the wanted sort.
func refused(err error, sort func(error) bool, wanted string) error {
	if err == nil {
		return fmt.Errorf("expected a refusal as %s, was accepted", wanted)
	}
	if !sort(err) {
		return fmt.Errorf("expected a refusal as %s, got: %w", wanted, err)
	}
	return nil
}

// lifeOf reads a watch until the object is gone: it must have come first, changed in between, and gone last.
func lifeOf(w watch.Interface) error {
	defer w.Stop()
	var seen []watch.EventType
	timeout := time.After(patience)
	for {
		select {
		case <-timeout:
			return fmt.Errorf("not gone after %s; saw %v", patience, seen)
		case event, open := <-w.ResultChan():
			if !open {
				return fmt.Errorf("the watch ended; saw %v", seen)
			}
			if event.Type == watch.Error {
				return fmt.Errorf("saw an error: %v", event.Object)
			}
			if event.Type != watch.Bookmark && (len(seen) == 0 || seen[len(seen)-1] != event.Type) {
				seen = append(seen, event.Type)
			}
			if event.Type == watch.Deleted {
				if fmt.Sprint(seen) != fmt.Sprint([]watch.EventType{watch.Added, watch.Modified, watch.Deleted}) {
					return fmt.Errorf("saw %v", seen)
				}
				return nil
			}
		}
	}
}

func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + name, AllowWatchBookmarks: true}
}

func paged(mark string) string { return pageMark + "=" + mark }

func withLabel(obj metav1.Object, key, value string) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	obj.SetLabels(labels)
}

func hasLabel(obj metav1.Object, key, value string) error {
	if found := obj.GetLabels()[key]; found != value {
		return fmt.Errorf("expected the label %s=%s, found %q", key, value, found)
	}
	return nil
}
