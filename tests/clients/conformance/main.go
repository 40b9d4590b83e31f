// Conformance drives an API server with client-go and controller-runtime, as controllers written in Go do.
//
// It makes objects of every kind in a file of samples, in one namespace and under one unique word, and prints one line
// of JSON for each step: {"kind", "client", "step"} and, where the step failed, "error". What is tried with a kind
// follows from discovery, so that two servers that serve the same give the same list of steps.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

const (
	patience = 60 * time.Second // for what the server does by and by
	limit    = 5 * time.Minute  // for everything: what comes later fails
	atOnce   = 8                // so many lives are tried at the same time
	pageMark = "conformance/page"
)

// sample is one kind: an object of it, and what may be written to its status.
type sample struct {
	Object map[string]any `json:"object"`
	Status map[string]any `json:"status"`
}

// line is what is told of one step.
type line struct {
	Kind   string `json:"kind"`
	Client string `json:"client"`
	Step   string `json:"step"`
	Error  string `json:"error,omitempty"`
}

// report tells the steps of one kind as they are done; a step that panics has failed.
type report struct {
	kind string
	out  *output
}

// output is shared by all kinds.
type output struct {
	sync.Mutex
	encoder *json.Encoder
}

func (o *output) tell(told line) {
	o.Lock()
	defer o.Unlock()
	if err := o.encoder.Encode(told); err != nil {
		panic(err)
	}
}

func (r *report) step(client, name string, try func() error) (ok bool) {
	told := line{Kind: r.kind, Client: client, Step: name}
	defer func() {
		if panicked := recover(); panicked != nil {
			told.Error = fmt.Sprintf("panic: %v", panicked)
		}
		r.out.tell(told)
		ok = told.Error == ""
	}()
	if err := try(); err != nil {
		told.Error = err.Error()
	}
	return ok
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the server, as administrator")
	namespace := flag.String("namespace", "", "a fresh namespace; its name begins the names of what is made in the cluster's scope")
	objects := flag.String("objects", "", "a YAML file with samples")
	only := flag.String("only", "", "try this kind alone")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	log.SetOutput(io.Discard)
	runtimelog.SetLogger(logr.Discard())
	if err := run(*kubeconfig, *namespace, *objects, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace, objects, only string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	samples, err := readSamples(objects)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	w, err := newWorld(ctx, config, namespace)
	if err != nil {
		return err
	}
	out := &output{encoder: json.NewEncoder(os.Stdout)}
	var group sync.WaitGroup
	if only == "" || only == "tools" {
		group.Go(func() { tryTools(w, &report{kind: "tools", out: out}) })
	}
	tryKinds(w, out, samples, only)
	group.Wait()
	return nil
}

func readSamples(path string) ([]sample, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var samples []sample
	return samples, yaml.Unmarshal(text, &samples)
}

// tryKinds tries some kinds and clients at the same time: lines come mixed, those of one kind and client in order.
func tryKinds(w *world, out *output, samples []sample, only string) {
	var group sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, s := range samples {
		gvk := (&unstructured.Unstructured{Object: s.Object}).GroupVersionKind()
		if only != "" && only != gvk.Kind {
			continue
		}
		r := &report{kind: gvk.GroupVersion().String() + " " + gvk.Kind, out: out}
		k := &kind{world: w, report: r, gvk: gvk, sample: s}
		if !r.step("discovery", "find the kind", k.discover) {
			continue
		}
		for _, try := range k.trials() {
			group.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				try(k)
			})
		}
	}
	group.Wait()
}

func (k *kind) trials() []func(*kind) {
	if !k.has("list") {
		return []func(*kind){tryQuestion}
	}
	return []func(*kind){tryDynamic, tryTyped, tryMetadata, tryRuntime}
}
