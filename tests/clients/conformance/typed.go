package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// resource is the REST client that a typed clientset has for a group, and where the kind is on it.
type resource struct {
	*rest.RESTClient
	k *kind
}

// rest is what typed clientsets are made of, with protobuf for what is sent and preferred for what is received.
func (k *kind) rest() resource {
	config := rest.CopyConfig(k.config)
	version := k.gvk.GroupVersion()
	config.GroupVersion = &version
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf + ",application/json"
	made, err := rest.RESTClientFor(config)
	if err != nil {
		panic(err)
	}
	return resource{made, k}
}

func (r resource) at(request *rest.Request) *rest.Request {
	return request.NamespaceIfScoped(r.k.namespace, r.k.namespaced).Resource(r.k.gvr.Resource)
}

func (r resource) Post() *rest.Request                     { return r.at(r.RESTClient.Post()) }
func (r resource) Get() *rest.Request                      { return r.at(r.RESTClient.Get()) }
func (r resource) Put() *rest.Request                      { return r.at(r.RESTClient.Put()) }
func (r resource) Delete() *rest.Request                   { return r.at(r.RESTClient.Delete()) }
func (r resource) Patch(how types.PatchType) *rest.Request { return r.at(r.RESTClient.Patch(how)) }

func listed(request *rest.Request, options metav1.ListOptions) *rest.Request {
	return request.VersionedParams(&options, scheme.ParameterCodec)
}

// tryTyped is the life of an object of a built-in kind through its Go type; bodies and DeleteOptions are protobuf.
func tryTyped(k *kind) {
	obj := k.typed("p")
	if obj == nil {
		return
	}
	name, home := obj.GetName(), k.rest()
	var life watch.Interface
	fresh := func() client.Object { return obj.DeepCopyObject().(client.Object) }
	step := func(name string, try func() error) bool { return k.try("typed", name, try) }
	step("list, then watch", func() error {
		list, err := listed(home.Get(), metav1.ListOptions{}).Do(k.ctx).Get()
		if err != nil {
			return err
		}
		options := named(name)
		options.Watch = true
		if accessor, err := meta.ListAccessor(list); err == nil {
			options.ResourceVersion = accessor.GetResourceVersion()
		}
		life, err = listed(home.Get(), options).Watch(k.ctx)
		return err
	})
	if !step("create", func() error { return home.Post().Body(fresh()).Do(k.ctx).Into(obj) }) {
		return
	}
	step("get", func() error {
		found := k.typed("p")
		if err := home.Get().Name(name).Do(k.ctx).Into(found); err != nil {
			return err
		}
		if found.GetUID() != obj.GetUID() {
			return fmt.Errorf("made %s, found %s", obj.GetUID(), found.GetUID())
		}
		return nil
	})
	step("strategic merge patch", func() error {
		body := []byte(`{"metadata":{"labels":{"strategic":"s"}}}`)
		found := k.typed("p")
		if err := home.Patch(types.StrategicMergePatchType).Name(name).Body(body).Do(k.ctx).Into(found); err != nil {
			return err
		}
		return hasLabel(found, "strategic", "s")
	})
	k.tryTypedUpdates(home, name)
	k.tryTypedDelete(home, name)
	step("watch from creation to deletion", func() error { return lifeOf(life) })
}

func (k *kind) tryTypedUpdates(home resource, name string) {
	update := func(subresource string, change func(client.Object)) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			now := k.typed("p")
			if err := home.Get().Name(name).Do(k.ctx).Into(now); err != nil {
				return err
			}
			change(now)
			request := home.Put().Name(name)
			if subresource != "" {
				request = request.SubResource(subresource)
			}
			return request.Body(now).Do(k.ctx).Error()
		})
	}
	k.try("typed", "update", func() error {
		return update("", func(obj client.Object) { withLabel(obj, "updated", "u") })
	})
	if k.has("status/update") {
		k.try("typed", "update status", func() error { return update("status", k.putStatus) })
	}
}

// putStatus puts the status of the sample into a typed object.
func (k *kind) putStatus(obj client.Object) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(err)
	}
	if status := k.status(obj.GetName()); status != nil {
		content["status"] = status
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj); err != nil {
		panic(err)
	}
}

func (k *kind) tryTypedDelete(home resource, name string) {
	mark := k.name("p")
	none := int64(0)
	k.try("typed", "create more", func() error {
		for _, suffix := range []string{"p1", "p2"} {
			more := k.typed(suffix)
			withLabel(more, pageMark, mark)
			if err := home.Post().Body(more).Do(k.ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
	k.deleteMarked("typed", mark, func() error {
		request := listed(home.Delete(), metav1.ListOptions{LabelSelector: paged(mark)})
		return request.Body(&metav1.DeleteOptions{GracePeriodSeconds: &none}).Do(k.ctx).Error()
	})
	k.try("typed", "delete, another uid", func() error {
		another := types.UID("another")
		options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &another}}
		return refused(home.Delete().Name(name).Body(options).Do(k.ctx).Error(), errors.IsConflict, "Conflict")
	})
	k.try("typed", "delete", func() error {
		return home.Delete().Name(name).Body(&metav1.DeleteOptions{GracePeriodSeconds: &none}).Do(k.ctx).Error()
	})
}

// tryMetadata reads and deletes objects of any kind by their metadata alone, as garbage collectors do.
func tryMetadata(k *kind) {
	var home metadata.ResourceInterface = k.metadata.Resource(k.gvr)
	if k.namespaced {
		home = k.metadata.Resource(k.gvr).Namespace(k.namespace)
	}
	obj, mark := k.object("m"), k.name("m")
	name := obj.GetName()
	withLabel(obj, pageMark, mark)
	var life watch.Interface
	step := func(name string, try func() error) bool { return k.try("metadata", name, try) }
	step("list, then watch", func() error {
		list, err := home.List(k.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		options := named(name)
		options.ResourceVersion = list.GetResourceVersion()
		life, err = home.Watch(k.ctx, options)
		return err
	})
	if !step("create", func() error {
		_, err := k.home().Create(k.ctx, obj, metav1.CreateOptions{})
		return err
	}) {
		return
	}
	step("get", func() error {
		found, err := home.Get(k.ctx, name, metav1.GetOptions{})
		if err == nil && found.Labels[pageMark] != mark {
			return fmt.Errorf("found labels %v", found.Labels)
		}
		return err
	})
	step("list", func() error {
		list, err := home.List(k.ctx, metav1.ListOptions{LabelSelector: paged(mark)})
		if err == nil && len(list.Items) != 1 {
			return fmt.Errorf("expected one, found %d", len(list.Items))
		}
		return err
	})
	step("merge patch", func() error {
		body := []byte(`{"metadata":{"annotations":{"seen":"` + strings.Repeat("x", 3) + `"}}}`)
		found, err := home.Patch(k.ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
		if err == nil && found.Annotations["seen"] != "xxx" {
			return fmt.Errorf("found annotations %v", found.Annotations)
		}
		return err
	})
	step("delete", func() error { return home.Delete(k.ctx, name, metav1.DeleteOptions{}) })
	step("watch from creation to deletion", func() error { return lifeOf(life) })
}
