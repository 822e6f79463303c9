// A node's NetworkPolicies as packet filter rules, for the cluster of e2e/kind: its pod network enforces none, and no
// engine that does can be had as a Go module.
//
// It follows policies, pods and namespaces, and writes one table of nft with rules for the pods of its node. The rules
// are those of the API's documentation (k8s.io/api/networking/v1, types.go): a pod that no policy selects takes all
// traffic; a pod that some select takes what at least one of them allows. Traffic from a pod's own node, such as the
// kubelet's probes, is not forwarded and so not filtered. A pod on its node's network has no address of its own: no
// selector finds it. Addresses are those of IPv4.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Changes that arrive within this time are written at once.
const gather = 200 * time.Millisecond

func main() {
	node := flag.String("node", os.Getenv("NODE_NAME"), "name of the node whose pods are protected")
	flag.Parse()
	configuration, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(configuration), 0)
	policies := factory.Networking().V1().NetworkPolicies()
	pods := factory.Core().V1().Pods()
	namespaces := factory.Core().V1().Namespaces()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	}
	for _, informer := range []cache.SharedIndexInformer{policies.Informer(), pods.Informer(), namespaces.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	written := ""
	for range changed {
		time.Sleep(gather)
		seen := cluster{node: *node}
		seen.policies, _ = policies.Lister().List(labels.Everything())
		seen.pods, _ = pods.Lister().List(labels.Everything())
		seen.namespaces, _ = namespaces.Lister().List(labels.Everything())
		text := seen.table()
		if text == written {
			continue
		}
		if err := write(text); err != nil {
			log.Print(err)
			notify()
			time.Sleep(time.Second)
			continue
		}
		written = text
		log.Printf("%d policies, %d rules", len(seen.policies), strings.Count(text, "return"))
	}
}

func write(text string) error {
	command := exec.Command("nft", "-f", "-")
	command.Stdin = strings.NewReader(text)
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, said)
	}
	return nil
}
