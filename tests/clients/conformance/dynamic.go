package main

import (
	"context"
	"fmt"
	"reflect"

	autoscaling "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (k *kind) home() dynamic.ResourceInterface {
	if k.namespaced {
		return k.dynamic.Resource(k.gvr).Namespace(k.namespace)
	}
	return k.dynamic.Resource(k.gvr)
}

// tryQuestion is for kinds that are asked and never stored; they have no name.
func tryQuestion(k *kind) {
	question := k.object("d")
	question.SetName("")
	typed := func() client.Object {
		found := k.typed("d")
		found.SetName("")
		return found
	}
	k.try("dynamic", "create", func() error {
		_, err := k.home().Create(k.ctx, question, metav1.CreateOptions{})
		return err
	})
	k.try("typed", "create", func() error { return k.rest().Post().Body(typed()).Do(k.ctx).Error() })
	k.try("controller-runtime", "create", func() error { return k.runtime.Create(k.ctx, typed()) })
}

// tryDynamic is the whole life of an object through the dynamic client, with JSON DeleteOptions.
func tryDynamic(k *kind) {
	home, obj := k.home(), k.object("d")
	name := obj.GetName()
	var made *unstructured.Unstructured
	var life watch.Interface
	step := func(name string, try func() error) bool { return k.try("dynamic", name, try) }
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
	step("create, dry run", func() error {
		if _, err := home.Create(k.ctx, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err
		}
		_, err := home.Get(k.ctx, name, metav1.GetOptions{})
		return refused(err, errors.IsNotFound, "NotFound")
	})
	if !step("create", func() (err error) {
		strict := metav1.CreateOptions{FieldManager: "creator", FieldValidation: metav1.FieldValidationStrict}
		made, err = home.Create(k.ctx, obj, strict)
		return err
	}) {
		return
	}
	step("create again", func() error {
		_, err := home.Create(k.ctx, obj, metav1.CreateOptions{})
		return refused(err, errors.IsAlreadyExists, "AlreadyExists")
	})
	step("get", func() error {
		found, err := home.Get(k.ctx, name, metav1.GetOptions{})
		if err == nil && (found.GetUID() != made.GetUID() || found.GroupVersionKind() != k.gvk) {
			return fmt.Errorf("made %s %s, found %s %s", k.gvk, made.GetUID(), found.GroupVersionKind(), found.GetUID())
		}
		return err
	})
	tryPatches(k, name)
	tryApply(k, name)
	tryUpdates(k, made)
	tryStatus(k, name)
	tryScale(k, name)
	tryPages(k)
	tryDynamicDelete(k, made)
	step("watch from creation to deletion", func() error { return lifeOf(life) })
}

func tryPatches(k *kind, name string) {
	_, builtin := scheme.Scheme.AllKnownTypes()[k.gvk]
	patch := func(title string, how types.PatchType, body string, check func(*unstructured.Unstructured, error) error) {
		k.try("dynamic", title, func() error {
			return check(k.home().Patch(k.ctx, name, how, []byte(body), metav1.PatchOptions{}))
		})
	}
	label := func(key, value string) func(*unstructured.Unstructured, error) error {
		return func(found *unstructured.Unstructured, err error) error {
			if err != nil {
				return err
			}
			return hasLabel(found, key, value)
		}
	}
	patch("merge patch", types.MergePatchType, `{"metadata":{"labels":{"merge":"m","gone":"g"}}}`, label("merge", "m"))
	patch("merge patch, removal", types.MergePatchType, `{"metadata":{"labels":{"gone":null}}}`, label("gone", ""))
	add := `[{"op":"test","path":"/metadata/name","value":"` + name + `"},{"op":"add","path":"/metadata/labels/json","value":"j"}]`
	patch("JSON patch", types.JSONPatchType, add, label("json", "j"))
	failing := `[{"op":"test","path":"/metadata/name","value":"other"}]`
	patch("JSON patch, failing test", types.JSONPatchType, failing, func(_ *unstructured.Unstructured, err error) error {
		return refused(err, errors.IsInvalid, "Invalid")
	})
	strategic := `{"metadata":{"labels":{"strategic":"s"},"finalizers":null}}`
	if builtin {
		patch("strategic merge patch", types.StrategicMergePatchType, strategic, label("strategic", "s"))
		return
	}
	patch("strategic merge patch", types.StrategicMergePatchType, strategic, func(_ *unstructured.Unstructured, err error) error {
		return refused(err, errors.IsUnsupportedMediaType, "UnsupportedMediaType")
	})
}

// tryApply is server-side apply: of some fields of what is there, of a field of somebody else, and of a new object.
func tryApply(k *kind, name string) {
	apply := func(title, value, manager string, force bool, check func(*unstructured.Unstructured, error) error) {
		k.try("dynamic", title, func() error {
			some := k.bare(name)
			withLabel(some, "applied", value)
			options := metav1.ApplyOptions{FieldManager: manager, Force: force}
			return check(k.home().Apply(k.ctx, name, some, options))
		})
	}
	accepted := func(value string) func(*unstructured.Unstructured, error) error {
		return func(found *unstructured.Unstructured, err error) error {
			if err != nil {
				return err
			}
			return hasLabel(found, "applied", value)
		}
	}
	apply("apply", "one", "first", false, accepted("one"))
	apply("apply, somebody else's field", "two", "second", false, func(_ *unstructured.Unstructured, err error) error {
		return refused(err, errors.IsConflict, "Conflict")
	})
	apply("apply, forced", "two", "second", true, accepted("two"))
	k.try("dynamic", "apply a new object", func() error {
		fresh := k.object("n")
		made, err := k.home().Apply(k.ctx, fresh.GetName(), fresh, metav1.ApplyOptions{FieldManager: "first"})
		if err != nil {
			return err
		}
		if len(made.GetManagedFields()) == 0 {
			return fmt.Errorf("no managedFields")
		}
		return k.home().Delete(k.ctx, fresh.GetName(), metav1.DeleteOptions{})
	})
}

// bare is an object with a name and no more.
func (k *kind) bare(name string) *unstructured.Unstructured {
	some := &unstructured.Unstructured{Object: map[string]any{}}
	some.SetGroupVersionKind(k.gvk)
	some.SetName(name)
	if k.namespaced {
		some.SetNamespace(k.namespace)
	}
	return some
}

func tryUpdates(k *kind, made *unstructured.Unstructured) {
	k.try("dynamic", "update", func() error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			now, err := k.home().Get(k.ctx, made.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			withLabel(now, "updated", "u")
			now, err = k.home().Update(k.ctx, now, metav1.UpdateOptions{FieldManager: "updater"})
			if err != nil {
				return err
			}
			return hasLabel(now, "updated", "u")
		})
	})
	k.try("dynamic", "update of what has changed", func() error {
		_, err := k.home().Update(k.ctx, made, metav1.UpdateOptions{})
		return refused(err, errors.IsConflict, "Conflict")
	})
}

func (k *kind) status(name string) map[string]any {
	status, _ := filled(k.sample.Status, k.words(name)).(map[string]any)
	return status
}

func tryStatus(k *kind, name string) {
	if !k.has("status/update") {
		return
	}
	written := k.status(name)
	check := func(found *unstructured.Unstructured, err error) error {
		if err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(found.Object, "status")
		for key, value := range written {
			if !reflect.DeepEqual(status[key], value) {
				return fmt.Errorf("wrote %s: %v, found %v", key, value, status[key])
			}
		}
		return nil
	}
	k.try("dynamic", "update status", func() error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			now, err := k.home().Get(k.ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for key, value := range written {
				if err := unstructured.SetNestedField(now.Object, runtime.DeepCopyJSONValue(value), "status", key); err != nil {
					return err
				}
			}
			return check(k.home().UpdateStatus(k.ctx, now, metav1.UpdateOptions{}))
		})
	})
	k.try("dynamic", "patch status", func() error {
		body, err := runtime.Encode(unstructured.UnstructuredJSONScheme, withStatus(k.bare(name), written))
		if err != nil {
			return err
		}
		return check(k.home().Patch(k.ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status"))
	})
	k.try("dynamic", "apply status", func() error {
		options := metav1.ApplyOptions{FieldManager: "status-writer", Force: true}
		return check(k.home().ApplyStatus(k.ctx, name, withStatus(k.bare(name), written), options))
	})
}

func withStatus(obj *unstructured.Unstructured, status map[string]any) *unstructured.Unstructured {
	if status != nil {
		obj.Object["status"] = runtime.DeepCopyJSONValue(status)
	}
	return obj
}

func tryScale(k *kind, name string) {
	if !k.has("scale/update") {
		return
	}
	scales := k.scale.Scales(k.namespace)
	step := func(title string, wanted int32, do func() (*autoscaling.Scale, error)) {
		k.try("scale", title, func() error {
			found, err := do()
			if err == nil && found.Spec.Replicas != wanted {
				return fmt.Errorf("expected %d replicas, found %d", wanted, found.Spec.Replicas)
			}
			return err
		})
	}
	step("get", 1, func() (*autoscaling.Scale, error) {
		return scales.Get(k.ctx, k.gvr.GroupResource(), name, metav1.GetOptions{})
	})
	step("update", 2, func() (found *autoscaling.Scale, err error) {
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if found, err = scales.Get(k.ctx, k.gvr.GroupResource(), name, metav1.GetOptions{}); err != nil {
				return err
			}
			found.Spec.Replicas = 2
			found, err = scales.Update(k.ctx, k.gvr.GroupResource(), found, metav1.UpdateOptions{})
			return err
		})
		return found, err
	})
	step("patch", 3, func() (*autoscaling.Scale, error) {
		body := []byte(`{"spec":{"replicas":3}}`)
		return scales.Patch(k.ctx, k.gvr, name, types.MergePatchType, body, metav1.PatchOptions{})
	})
}

// tryPages makes three more, reads them page by page, and deletes them together where that is served.
func tryPages(k *kind) {
	mark := k.name("d")
	k.try("dynamic", "list in pages", func() error {
		for _, suffix := range []string{"d1", "d2", "d3"} {
			more := k.object(suffix)
			withLabel(more, pageMark, mark)
			if _, err := k.home().Create(k.ctx, more, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		pages, items := 0, 0
		reader := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			pages++
			return k.home().List(ctx, options)
		})
		reader.PageSize = 2
		count := func(runtime.Object) error { items++; return nil }
		if err := reader.EachListItem(k.ctx, metav1.ListOptions{LabelSelector: paged(mark)}, count); err != nil {
			return err
		}
		if pages != 2 || items != 3 {
			return fmt.Errorf("expected 3 items in 2 pages, found %d in %d", items, pages)
		}
		return nil
	})
	k.deleteMarked("dynamic", mark, func() error {
		return k.home().DeleteCollection(k.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: paged(mark)})
	})
}

// deleteMarked deletes a collection, or each of its objects where collections cannot be deleted.
func (k *kind) deleteMarked(clientName, mark string, collection func() error) {
	if k.has("deletecollection") {
		k.try(clientName, "delete collection", collection)
	}
	k.try(clientName, "the collection is gone", func() error {
		return eventually("the deletion of a collection", func() (bool, error) {
			list, err := k.home().List(k.ctx, metav1.ListOptions{LabelSelector: paged(mark)})
			if err != nil || len(list.Items) == 0 {
				return err == nil, err
			}
			for i := range list.Items {
				if !k.has("deletecollection") && list.Items[i].GetDeletionTimestamp() == nil {
					err = k.home().Delete(k.ctx, list.Items[i].GetName(), metav1.DeleteOptions{})
				}
			}
			return false, err
		})
	})
}

func tryDynamicDelete(k *kind, made *unstructured.Unstructured) {
	wrong, right := types.UID("another"), made.GetUID()
	k.try("dynamic", "delete, another uid", func() error {
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}
		return refused(k.home().Delete(k.ctx, made.GetName(), options), errors.IsConflict, "Conflict")
	})
	k.try("dynamic", "delete", func() error {
		background := metav1.DeletePropagationBackground
		options := metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &right}}
		return k.home().Delete(k.ctx, made.GetName(), options)
	})
}
