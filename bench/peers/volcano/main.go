// Volcano's deviceshare in this process: FilterNode of every node for one new pod after the other.
//
//	peer NODES LOG_LEVEL
//
// It prints one line when the nodes are there. For each number that it then reads it makes so many
// decisions, and prints the milliseconds of processor time of each, as a JSON array.
package main

import (
	"bufio"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"volcano.sh/volcano/pkg/scheduler/api/devices"
	"volcano.sh/volcano/pkg/scheduler/api/devices/config"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"
)

const (
	cards  = 8
	memory = 8000
	cores  = 10
)

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	logTo(io.Discard, os.Args[2])
	vgpu.VGPUEnable = true
	config.InitDevicesConfig("none", "none") // there is no cluster: the built-in configuration
	nodes := cluster(count)
	fmt.Println("ready")
	number := 0
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		calls, err := strconv.Atoi(input.Text())
		if err != nil {
			panic(err)
		}
		spent := make([]float64, calls)
		for call := range spent {
			number++
			change(nodes[number%count], number)
			asking := pod(fmt.Sprintf("new-%d", number))
			before := processorTime()
			fitting := 0
			for _, node := range nodes {
				code, _, err := node.FilterNode(asking, "")
				if err == nil && code == devices.Success {
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

// cluster makes nodes of eight cards with one share on each card. All nodes come first: reading a
// node looks through the metrics of all pods.
func cluster(count int) []*vgpu.GPUDevices {
	nodes := make([]*vgpu.GPUDevices, count)
	for number := range nodes {
		name := fmt.Sprintf("node-%05d.example", number)
		register := ""
		for card := range cards {
			register += uuid(name, card) + ",10,81920,NVIDIA-A100-SXM4-80GB,true,hami-core:"
		}
		nodes[number] = vgpu.NewGPUDevices(name, &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Annotations: map[string]string{
				config.VolcanoVGPURegister: register,
				// A handshake that does not expire; any other is answered with a patch of the node.
				config.VolcanoVGPUHandshake: "Requesting_2999.01.01 00:00:00",
			},
		}})
	}
	for _, node := range nodes {
		for card := range cards {
			node.AddResource(holder(node.Name, card, fmt.Sprintf("held-%d", card)))
		}
	}
	return nodes
}

// change releases the share on the first card of a node, and adds another one.
func change(node *vgpu.GPUDevices, number int) {
	for uid := range node.Device[0].PodMap {
		held := holder(node.Name, 0, uid)
		held.UID = types.UID(uid)
		node.SubResource(held)
	}
	node.AddResource(holder(node.Name, 0, fmt.Sprintf("changed-%d", number)))
}

func holder(node string, card int, name string) *v1.Pod {
	held := pod(name)
	held.Annotations = map[string]string{
		vgpu.AssignedIDsAnnotations: fmt.Sprintf("%s,NVIDIA,%d,%d:", uuid(node, card), memory, cores),
	}
	return held
}

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main",
			Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
				config.VolcanoVGPUNumber: resource.MustParse("1"),
				config.VolcanoVGPUMemory: *resource.NewQuantity(memory, resource.DecimalSI),
				config.VolcanoVGPUCores:  *resource.NewQuantity(cores, resource.DecimalSI),
			}},
		}}},
	}
}

func uuid(node string, card int) string {
	return fmt.Sprintf("GPU-%s-%d", node, card)
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
