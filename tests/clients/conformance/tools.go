package main

import (
	"context"
	"fmt"
	"time"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	clientcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// tryTools is what controllers have of client-go besides objects: discovery, informers, election, events, subresources.
func tryTools(w *world, r *report) {
	config := rest.CopyConfig(w.config)
	config.ContentType = protobuf
	t := tools{world: w, report: r}
	if !r.step("clientset", "protobuf", func() (err error) { t.clients, err = kubernetes.NewForConfig(config); return err }) {
		return
	}
	t.tryDiscovery()
	t.tryInformer()
	t.tryPods()
	t.tryDeployments()
	t.tryElection()
	t.tryEvents()
	t.tryAccounts()
}

type tools struct {
	*world
	report  *report
	clients kubernetes.Interface
}

func (t tools) tryDiscovery() {
	t.report.step("discovery", "version", func() error {
		version, err := t.clients.Discovery().ServerVersion()
		if err == nil && version.Major != "1" {
			return fmt.Errorf("found %v", version)
		}
		return err
	})
	t.report.step("discovery", "groups and resources", func() error {
		groups, resources, err := t.clients.Discovery().ServerGroupsAndResources()
		if err == nil && (len(groups) < 10 || len(resources) < len(groups)) {
			return fmt.Errorf("found %d groups, %d lists of resources", len(groups), len(resources))
		}
		return err
	})
	t.report.step("discovery", "preferred resources", func() error {
		_, err := t.clients.Discovery().ServerPreferredNamespacedResources()
		return err
	})
	t.report.step("discovery", "OpenAPI v3", func() error {
		paths, err := t.clients.Discovery().OpenAPIV3().Paths()
		if err != nil {
			return err
		}
		_, err = paths["apis/apps/v1"].Schema("application/json")
		return err
	})
	t.report.step("discovery", "OpenAPI v2", func() error {
		_, err := t.clients.Discovery().OpenAPISchema()
		return err
	})
}

func (t tools) tryInformer() {
	t.report.step("informers", "an object comes, changes and goes", func() error {
		ctx, cancel := context.WithTimeout(t.ctx, patience)
		defer cancel()
		factory := informers.NewSharedInformerFactoryWithOptions(t.clients, 0, informers.WithNamespace(t.namespace))
		seen := make(chan string, 16)
		tell := func(what string, obj any) {
			if found, ok := obj.(*core.ConfigMap); ok && found.Name == "informed" {
				seen <- what + found.Data["k"]
			}
		}
		informer := factory.Core().V1().ConfigMaps().Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { tell("added ", obj) },
			UpdateFunc: func(_, obj any) { tell("updated ", obj) },
			DeleteFunc: func(obj any) { tell("deleted ", obj) },
		})
		if err != nil {
			return err
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("the informer has not synced")
		}
		home := t.clients.CoreV1().ConfigMaps(t.namespace)
		made := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "informed"}, Data: map[string]string{"k": "1"}}
		if made, err = home.Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
		made.Data["k"] = "2"
		if _, err = home.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if err = home.Delete(ctx, "informed", metav1.DeleteOptions{}); err != nil {
			return err
		}
		for _, wanted := range []string{"added 1", "updated 2", "deleted 2"} {
			select {
			case found := <-seen:
				if found != wanted {
					return fmt.Errorf("expected %q, saw %q", wanted, found)
				}
			case <-ctx.Done():
				return fmt.Errorf("waited for %q", wanted)
			}
		}
		return nil
	})
}

func podOf(name string) *core.Pod {
	return &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": "tools"}},
		Spec:       core.PodSpec{SchedulerName: "nobody", Containers: []core.Container{{Name: "c", Image: "i:1"}}},
	}
}

func (t tools) tryPods() {
	pods := t.clients.CoreV1().Pods(t.namespace)
	node := t.namespace + "-tools"
	t.report.step("clientset", "bind a pod", func() error {
		fresh := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if _, err := t.clients.CoreV1().Nodes().Create(t.ctx, fresh, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := pods.Create(t.ctx, podOf("bound"), metav1.CreateOptions{}); err != nil {
			return err
		}
		binding := &core.Binding{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: core.ObjectReference{Kind: "Node", Name: node}}
		if err := pods.Bind(t.ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
		found, err := pods.List(t.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err == nil && len(found.Items) != 1 {
			return fmt.Errorf("found %d pods of the node", len(found.Items))
		}
		return err
	})
	t.report.step("clientset", "bind a pod again", func() error {
		binding := &core.Binding{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: core.ObjectReference{Kind: "Node", Name: node}}
		return refused(pods.Bind(t.ctx, binding, metav1.CreateOptions{}), errors.IsConflict, "Conflict")
	})
	t.report.step("clientset", "patch the status of a pod", func() error {
		patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}],"phase":"Running"}}`)
		found, err := pods.Patch(t.ctx, "bound", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err == nil && found.Status.Phase != core.PodRunning {
			return fmt.Errorf("found phase %s", found.Status.Phase)
		}
		return err
	})
	t.report.step("clientset", "delete a bound pod with grace", func() error {
		if err := pods.Delete(t.ctx, "bound", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(30))}); err != nil {
			return err
		}
		found, err := pods.Get(t.ctx, "bound", metav1.GetOptions{})
		if err == nil && found.DeletionTimestamp == nil {
			return fmt.Errorf("no deletionTimestamp")
		}
		return err
	})
	t.report.step("clientset", "delete a bound pod at once", func() error {
		if err := pods.Delete(t.ctx, "bound", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
			return err
		}
		_, err := pods.Get(t.ctx, "bound", metav1.GetOptions{})
		return refused(err, errors.IsNotFound, "NotFound")
	})
	t.report.step("clientset", "evict a pod", func() error {
		if _, err := pods.Create(t.ctx, podOf("evicted"), metav1.CreateOptions{}); err != nil {
			return err
		}
		eviction := &policy.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}, DeleteOptions: &metav1.DeleteOptions{}}
		return pods.EvictV1(t.ctx, eviction)
	})
	t.report.step("clientset", "apply a pod", func() error {
		some := applycore.Pod("applied", t.namespace).WithLabels(map[string]string{"of": "tools"}).WithSpec(applycore.PodSpec().WithSchedulerName("nobody").
			WithContainers(applycore.Container().WithName("c").WithImage("i:1")))
		found, err := pods.Apply(t.ctx, some, metav1.ApplyOptions{FieldManager: "tools"})
		if err != nil {
			return err
		}
		owned, err := applycore.ExtractPod(found, "tools")
		if err == nil && (owned.Spec == nil || *owned.Spec.SchedulerName != "nobody" || owned.Spec.DNSPolicy != nil) {
			return fmt.Errorf("owned is %v", owned.Spec)
		}
		return err
	})
	t.report.step("clientset", "delete pods and the node", func() error {
		if err := pods.DeleteCollection(t.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "of=tools"}); err != nil {
			return err
		}
		return t.clients.CoreV1().Nodes().Delete(t.ctx, node, metav1.DeleteOptions{})
	})
}

func (t tools) tryDeployments() {
	home := t.clients.AppsV1().Deployments(t.namespace)
	labels := map[string]string{"app": "scaled"}
	t.report.step("clientset", "create a deployment", func() error {
		pod := podOf("scaled")
		template := core.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec}
		spec := apps.DeploymentSpec{Replicas: ptr.To(int32(0)), Selector: metav1.SetAsLabelSelector(labels), Template: template}
		_, err := home.Create(t.ctx, &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "scaled"}, Spec: spec}, metav1.CreateOptions{})
		return err
	})
	t.report.step("clientset", "update the scale of a deployment", func() error {
		scale, err := home.GetScale(t.ctx, "scaled", metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.ResourceVersion, scale.Spec.Replicas = "", 2
		scale, err = home.UpdateScale(t.ctx, "scaled", scale, metav1.UpdateOptions{})
		if err == nil && (scale.Spec.Replicas != 2 || scale.Status.Selector != "app=scaled") {
			return fmt.Errorf("found %v %v", scale.Spec, scale.Status)
		}
		return err
	})
	t.report.step("clientset", "apply replicas of a deployment that somebody else has", func() error {
		some := applyapps.Deployment("scaled", t.namespace).WithSpec(applyapps.DeploymentSpec().WithReplicas(3))
		_, err := home.Apply(t.ctx, some, metav1.ApplyOptions{FieldManager: "tools"})
		return refused(err, errors.IsConflict, "Conflict")
	})
	t.report.step("clientset", "apply the status of a deployment", func() error {
		at := metav1.NewTime(time.Unix(1700000000, 0))
		condition := applyapps.DeploymentCondition().WithType("Tried").WithStatus("True").WithLastUpdateTime(at).WithLastTransitionTime(at)
		some := applyapps.Deployment("scaled", t.namespace).WithStatus(applyapps.DeploymentStatus().WithConditions(condition))
		found, err := home.ApplyStatus(t.ctx, some, metav1.ApplyOptions{FieldManager: "tools"})
		if err == nil && (len(found.Status.Conditions) != 1 || !found.Status.Conditions[0].LastUpdateTime.Equal(&at)) {
			return fmt.Errorf("found %v", found.Status.Conditions)
		}
		return err
	})
	t.report.step("clientset", "an owner takes what it owns along", func() error {
		owner, err := home.Get(t.ctx, "scaled", metav1.GetOptions{})
		if err != nil {
			return err
		}
		reference := applymeta.OwnerReference().WithAPIVersion("apps/v1").WithKind("Deployment").WithName(owner.Name).WithUID(owner.UID)
		owned := applycore.ConfigMap("owned", t.namespace).WithOwnerReferences(reference)
		maps := t.clients.CoreV1().ConfigMaps(t.namespace)
		if _, err = maps.Apply(t.ctx, owned, metav1.ApplyOptions{FieldManager: "tools"}); err != nil {
			return err
		}
		foreground := metav1.DeletePropagationForeground
		if err = home.Delete(t.ctx, "scaled", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			return err
		}
		return eventually("the garbage collector", func() (bool, error) {
			_, err := maps.Get(t.ctx, "owned", metav1.GetOptions{})
			_, left := home.Get(t.ctx, "scaled", metav1.GetOptions{})
			return errors.IsNotFound(err) && errors.IsNotFound(left), err
		})
	})
}

func (t tools) tryElection() {
	t.report.step("leaderelection", "lead, release, lead again", func() error {
		for _, identity := range []string{"first", "second"} {
			if err := t.lead(identity); err != nil {
				return err
			}
		}
		return nil
	})
}

// lead becomes the leader and steps down.
func (t tools) lead(identity string) error {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	lease := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: "led", Namespace: t.namespace},
		Client:     t.clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	leading := false
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lease, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leading = true; cancel() },
			OnStoppedLeading: func() {},
		},
	})
	if !leading {
		return fmt.Errorf("%s did not come to lead", identity)
	}
	return nil
}

func (t tools) tryEvents() {
	about := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt", Namespace: t.namespace, UID: "u"}}
	// The second is recorded once the first is there: recorders wait ten seconds where one overtakes the other.
	seen := func(reason string, count int32) error {
		return eventually("the event", func() (bool, error) {
			list, err := t.clients.CoreV1().Events(t.namespace).List(t.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
			if err != nil || len(list.Items) != 1 {
				return false, err
			}
			found := list.Items[0]
			return found.Count >= count || found.Series != nil && found.Series.Count >= count, nil
		})
	}
	t.report.step("events", "record of the core group, twice", func() error {
		broadcaster := record.NewBroadcaster()
		defer broadcaster.Shutdown()
		broadcaster.StartRecordingToSink(&clientcore.EventSinkImpl{Interface: t.clients.CoreV1().Events(t.namespace)})
		recorder := broadcaster.NewRecorder(scheme.Scheme, core.EventSource{Component: "conformance"})
		recorder.Event(about, core.EventTypeNormal, "CoreTried", "tried")
		if err := seen("CoreTried", 0); err != nil {
			return err
		}
		recorder.Event(about, core.EventTypeNormal, "CoreTried", "tried")
		return seen("CoreTried", 2)
	})
	t.report.step("events", "record of events.k8s.io, twice", func() error {
		broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: t.clients.EventsV1()})
		defer broadcaster.Shutdown()
		broadcaster.StartRecordingToSink(t.ctx.Done())
		recorder := broadcaster.NewRecorder(scheme.Scheme, "conformance")
		recorder.Eventf(about, nil, core.EventTypeNormal, "NewTried", "Try", "tried")
		if err := seen("NewTried", 0); err != nil {
			return err
		}
		recorder.Eventf(about, nil, core.EventTypeNormal, "NewTried", "Try", "tried")
		return seen("NewTried", 2)
	})
}

func (t tools) tryAccounts() {
	t.report.step("clientset", "a token of a service account, reviewed", func() error {
		home := t.clients.CoreV1().ServiceAccounts(t.namespace)
		account := &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tried"}}
		if _, err := home.Create(t.ctx, account, metav1.CreateOptions{}); err != nil {
			return err
		}
		asked := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))}}
		given, err := home.CreateToken(t.ctx, "tried", asked, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		review := &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: given.Status.Token}}
		review, err = t.clients.AuthenticationV1().TokenReviews().Create(t.ctx, review, metav1.CreateOptions{})
		wanted := "system:serviceaccount:" + t.namespace + ":tried"
		if err == nil && review.Status.User.Username != wanted {
			return fmt.Errorf("expected %s, found %v", wanted, review.Status)
		}
		return err
	})
	t.report.step("clientset", "finalize a namespace", func() error {
		home := t.clients.CoreV1().Namespaces()
		made := &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace + "-final"}}
		made, err := home.Create(t.ctx, made, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if made, err = home.Finalize(t.ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
		return home.Delete(t.ctx, made.Name, metav1.DeleteOptions{})
	})
}
