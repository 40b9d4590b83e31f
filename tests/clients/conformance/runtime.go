package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const runtimeClient = "controller-runtime"

// any is the sample by its Go type, or as unstructured content where the kind has none.
func (k *kind) any(suffix string) client.Object {
	if typed := k.typed(suffix); typed != nil {
		return typed
	}
	return k.object(suffix)
}

// tryRuntime is the life of an object through controller-runtime's client, seen by its cache.
func tryRuntime(k *kind) {
	obj := k.any("r")
	key := client.ObjectKeyFromObject(obj)
	step := func(name string, try func() error) bool { return k.try(runtimeClient, name, try) }
	step("cache before", func() error {
		return refused(k.cache.Get(k.ctx, key, k.any("r")), errors.IsNotFound, "NotFound")
	})
	if !step("create", func() error { return k.runtime.Create(k.ctx, obj, client.FieldOwner("creator")) }) {
		return
	}
	step("create again", func() error {
		return refused(k.runtime.Create(k.ctx, k.any("r")), errors.IsAlreadyExists, "AlreadyExists")
	})
	step("get", func() error {
		found := k.any("r")
		if err := k.runtime.Get(k.ctx, key, found); err != nil {
			return err
		}
		if found.GetUID() != obj.GetUID() {
			return fmt.Errorf("made %s, found %s", obj.GetUID(), found.GetUID())
		}
		return nil
	})
	step("the cache sees it", func() error {
		return eventually("the cache", func() (bool, error) {
			err := k.cache.Get(k.ctx, key, k.any("r"))
			return err == nil, err
		})
	})
	k.tryRuntimePatches(key)
	k.tryRuntimeStatus(key)
	k.tryRuntimeCollection()
	step("delete", func() error {
		uid := obj.GetUID()
		return k.runtime.Delete(k.ctx, obj, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	})
	step("the cache sees it go", func() error {
		return eventually("the cache", func() (bool, error) {
			err := k.cache.Get(k.ctx, key, k.any("r"))
			return errors.IsNotFound(err), err
		})
	})
}

// changed reads, changes and writes an object, again where it has changed meanwhile.
func (k *kind) changed(key types.NamespacedName, write func(now client.Object) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now := k.any("r")
		if err := k.runtime.Get(k.ctx, key, now); err != nil {
			return err
		}
		return write(now)
	})
}

func (k *kind) tryRuntimePatches(key types.NamespacedName) {
	patch := func(title, label string, from func(before client.Object) client.Patch) {
		k.try(runtimeClient, title, func() error {
			return k.changed(key, func(now client.Object) error {
				before := now.DeepCopyObject().(client.Object)
				withLabel(now, label, "x")
				if err := k.runtime.Patch(k.ctx, now, from(before)); err != nil {
					return err
				}
				return hasLabel(now, label, "x")
			})
		})
	}
	patch("merge patch", "merge", client.MergeFrom)
	patch("merge patch of a version", "locked", func(before client.Object) client.Patch {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	})
	if _, free := k.any("r").(*unstructured.Unstructured); !free {
		patch("strategic merge patch", "strategic", func(before client.Object) client.Patch {
			return client.StrategicMergeFrom(before)
		})
	}
	k.try(runtimeClient, "update", func() error {
		return k.changed(key, func(now client.Object) error {
			withLabel(now, "updated", "u")
			return k.runtime.Update(k.ctx, now)
		})
	})
	k.try(runtimeClient, "apply", func() error {
		some := k.bare(key.Name)
		withLabel(some, "applied", "a")
		owned := client.ApplyConfigurationFromUnstructured(some)
		return k.runtime.Apply(k.ctx, owned, client.FieldOwner("applier"), client.ForceOwnership)
	})
}

func (k *kind) tryRuntimeStatus(key types.NamespacedName) {
	if !k.has("status/update") {
		return
	}
	k.try(runtimeClient, "update status", func() error {
		return k.changed(key, func(now client.Object) error {
			k.putStatus(now)
			return k.runtime.Status().Update(k.ctx, now)
		})
	})
	k.try(runtimeClient, "patch status", func() error {
		return k.changed(key, func(now client.Object) error {
			before := k.any("r")
			if err := k.runtime.Get(k.ctx, key, before); err != nil {
				return err
			}
			k.putStatus(now)
			return k.runtime.Status().Patch(k.ctx, now, client.MergeFrom(before))
		})
	})
}

func (k *kind) tryRuntimeCollection() {
	mark := k.name("r")
	k.try(runtimeClient, "list", func() error {
		for _, suffix := range []string{"r1", "r2"} {
			more := k.any(suffix)
			withLabel(more, pageMark, mark)
			if err := k.runtime.Create(k.ctx, more); err != nil {
				return err
			}
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.gvk)
		if err := k.runtime.List(k.ctx, list, client.InNamespace(k.inside()), client.MatchingLabels{pageMark: mark}); err != nil {
			return err
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("expected 2, found %d", len(list.Items))
		}
		return nil
	})
	k.deleteMarked(runtimeClient, mark, func() error {
		return k.runtime.DeleteAllOf(k.ctx, k.any("r"), client.InNamespace(k.inside()), client.MatchingLabels{pageMark: mark})
	})
}

// inside is the namespace, empty for kinds of the cluster's scope.
func (k *kind) inside() string {
	if k.namespaced {
		return k.namespace
	}
	return ""
}
