// Koordinator's DeviceShare in this process: PreFilter, and Filter of every node, for one new pod
// after the other.
//
//	peer NODES LOG_LEVEL
//
// It prints one line when the nodes are there. For each number that it then reads it makes so many
// decisions, and prints the milliseconds of processor time of each, as a JSON array.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	schedulertesting "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	"github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	koordfake "github.com/koordinator-sh/koordinator/pkg/client/clientset/versioned/fake"
	koordinformers "github.com/koordinator-sh/koordinator/pkg/client/informers/externalversions"
	schedulerconfig "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	schedulerconfigv1 "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config/v1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/deviceshare"
)

const cards = 8

// share is a tenth of a card.
var share = v1.ResourceList{
	extension.ResourceGPUCore:        resource.MustParse("10"),
	extension.ResourceGPUMemoryRatio: resource.MustParse("10"),
}

// plugin has the extension points of DeviceShare that are measured, and those that change a node.
type plugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ReservePlugin
}

// snapshot is the scheduler's view of the nodes.
type snapshot struct {
	nodes  []fwk.NodeInfo
	byName map[string]fwk.NodeInfo
}

func (s *snapshot) NodeInfos() fwk.NodeInfoLister                                 { return s }
func (s *snapshot) StorageInfos() fwk.StorageInfoLister                           { return s }
func (s *snapshot) IsPVCUsedByPods(string) bool                                   { return false }
func (s *snapshot) List() ([]fwk.NodeInfo, error)                                 { return s.nodes, nil }
func (s *snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error)             { return nil, nil }
func (s *snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) { return nil, nil }
func (s *snapshot) Get(name string) (fwk.NodeInfo, error) {
	if found, ok := s.byName[name]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("no node %s", name)
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	// The fake clients do not stream lists.
	os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	logTo(io.Discard, os.Args[2])
	metrics.Register()
	ctx := context.Background()
	view := nodes(count)
	deviceShare := made(ctx, view)
	fmt.Println("ready")
	number := 0
	var reserved func()
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		calls, err := strconv.Atoi(input.Text())
		if err != nil {
			panic(err)
		}
		spent := make([]float64, calls)
		for call := range spent {
			number++
			if reserved != nil {
				reserved()
			}
			reserved = change(ctx, deviceShare, view.nodes[number%count], number)
			asking := pod(fmt.Sprintf("new-%d", number))
			before := processorTime()
			fitting := 0
			state := framework.NewCycleState()
			if _, status := deviceShare.PreFilter(ctx, state, asking, view.nodes); !status.IsSuccess() {
				panic(status.AsError())
			}
			for _, node := range view.nodes {
				if deviceShare.Filter(ctx, state, asking, node).IsSuccess() {
					fitting++
				}
			}
			spent[call] = processorTime() - before
			if fitting != count {
				panic(fmt.Sprintf("%d of %d nodes fit", fitting, count))
			}
		}
		line, err := json.Marshal(spent)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}

// change reserves a share on a node; what it returns releases that share.
func change(ctx context.Context, deviceShare plugin, node fwk.NodeInfo, number int) func() {
	state, held, name := framework.NewCycleState(), pod(fmt.Sprintf("held-%d", number)), node.Node().Name
	if _, status := deviceShare.PreFilter(ctx, state, held, nil); !status.IsSuccess() {
		panic(status.AsError())
	}
	if status := deviceShare.Reserve(ctx, state, held, name); !status.IsSuccess() {
		panic(status.AsError())
	}
	return func() { deviceShare.Unreserve(ctx, state, held, name) }
}

// made is the plugin with its caches filled from fake clients: a Device for each node, and a pod
// with a share of each card.
func made(ctx context.Context, view *snapshot) plugin {
	var objects, described []apiruntime.Object
	for _, info := range view.nodes {
		node := info.Node()
		objects = append(objects, node)
		described = append(described, device(node.Name))
		for card := range int32(cards) {
			objects = append(objects, holder(node.Name, card))
		}
	}
	koordClient := koordfake.NewSimpleClientset(described...)
	koordFactory := koordinformers.NewSharedInformerFactory(koordClient, 0)
	extenders, err := frameworkext.NewFrameworkExtenderFactory(
		frameworkext.WithKoordinatorClientSet(koordClient),
		frameworkext.WithKoordinatorSharedInformerFactory(koordFactory),
		frameworkext.WithReservationNominator(frameworkext.NewFakeReservationNominator()),
		frameworkext.WithReservationCache(frameworkext.NewFakeReservationCache()),
	)
	if err != nil {
		panic(err)
	}
	client := kubefake.NewSimpleClientset(objects...)
	handle, err := schedulertesting.NewFramework(
		ctx,
		[]schedulertesting.RegisterPluginFunc{
			schedulertesting.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
			schedulertesting.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		},
		"koord-scheduler",
		runtime.WithClientSet(client),
		runtime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		runtime.WithSnapshotSharedLister(view),
	)
	if err != nil {
		panic(err)
	}
	defaults := &schedulerconfigv1.DeviceShareArgs{}
	schedulerconfigv1.SetDefaults_DeviceShareArgs(defaults)
	args := &schedulerconfig.DeviceShareArgs{}
	if err := schedulerconfigv1.Convert_v1_DeviceShareArgs_To_config_DeviceShareArgs(defaults, args, nil); err != nil {
		panic(err)
	}
	deviceShare, err := frameworkext.PluginFactoryProxy(extenders, deviceshare.New)(ctx, args, handle)
	if err != nil {
		panic(err)
	}
	return deviceShare.(plugin)
}

func nodes(count int) *snapshot {
	view := &snapshot{byName: map[string]fwk.NodeInfo{}}
	for number := range count {
		name := fmt.Sprintf("node-%05d.example", number)
		info := framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
		view.nodes = append(view.nodes, info)
		view.byName[name] = info
	}
	return view
}

func device(node string) *v1alpha1.Device {
	made := &v1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(node)}}
	for card := range int32(cards) {
		made.Spec.Devices = append(made.Spec.Devices, v1alpha1.DeviceInfo{
			Type:   v1alpha1.GPU,
			UUID:   fmt.Sprintf("GPU-%s-%d", node, card),
			Minor:  &card,
			Health: true,
			Resources: v1.ResourceList{
				extension.ResourceGPUCore:        resource.MustParse("100"),
				extension.ResourceGPUMemoryRatio: resource.MustParse("100"),
				extension.ResourceGPUMemory:      resource.MustParse("80Gi"),
			},
		})
	}
	return made
}

// holder is a pod that has a tenth of one card of a node.
func holder(node string, card int32) *v1.Pod {
	held := pod(fmt.Sprintf("%s-%d", node, card))
	held.Spec.NodeName = node
	held.Status.Phase = v1.PodRunning
	resources := share.DeepCopy()
	resources[extension.ResourceGPUMemory] = resource.MustParse("8Gi")
	allocations := extension.DeviceAllocations{
		v1alpha1.GPU: {{Minor: card, Resources: resources}},
	}
	if err := extension.SetDeviceAllocations(held, allocations); err != nil {
		panic(err)
	}
	return held
}

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name:      "main",
			Resources: v1.ResourceRequirements{Limits: share, Requests: share},
		}}},
	}
}

// logTo sets the level of the log, and where it goes.
func logTo(sink io.Writer, level string) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL", "-v=" + level})
	klog.SetOutput(sink)
}

// processorTime is that of all threads of this process, in milliseconds.
func processorTime() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return float64(used.Utime.Sec+used.Stime.Sec)*1e3 + float64(used.Utime.Usec+used.Stime.Usec)/1e3
}
