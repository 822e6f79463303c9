// Command nri-witness is an NRI plugin that changes nothing and writes what it is shown.
//
// One line of JSON for each event: the name of the event, the pod sandbox, the container.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type witness struct {
	out *json.Encoder
}

type event struct {
	Event     string          `json:"event"`
	Pod       *api.PodSandbox `json:"pod,omitempty"`
	Container *api.Container  `json:"container,omitempty"`
}

func (w *witness) say(name string, pod *api.PodSandbox, container *api.Container) error {
	return w.out.Encode(event{name, pod, container})
}

func (w *witness) Configure(_ context.Context, _, runtime, version string) (stub.EventMask, error) {
	log.Printf("connected to %s %s", runtime, version)
	return 0, nil // 0: every event that there is a method for
}

func (w *witness) Synchronize(
	_ context.Context, pods []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	for _, pod := range pods {
		if err := w.say("Synchronize", pod, nil); err != nil {
			return nil, err
		}
	}
	for _, container := range containers {
		if err := w.say("Synchronize", nil, container); err != nil {
			return nil, err
		}
	}
	return nil, w.say("Synchronized", nil, nil)
}

func (w *witness) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return w.say("RunPodSandbox", pod, nil)
}

func (w *witness) CreateContainer(
	_ context.Context, pod *api.PodSandbox, container *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, w.say("CreateContainer", pod, container)
}

func main() {
	socket := flag.String("socket", api.DefaultSocketPath, "where the runtime serves NRI")
	name := flag.String("name", "witness", "name of the plugin")
	flag.Parse()
	plugin := &witness{out: json.NewEncoder(os.Stdout)}
	served, err := stub.New(
		plugin, stub.WithSocketPath(*socket), stub.WithPluginName(*name), stub.WithPluginIdx("90"),
	)
	if err != nil {
		log.Fatal(err)
	}
	if err := served.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
