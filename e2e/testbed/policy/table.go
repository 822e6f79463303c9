package main

import (
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const table = "inet dragoman-e2e-policy"

// What the API server has, and the node that the table is for.
type cluster struct {
	node       string
	policies   []*networking.NetworkPolicy
	pods       []*core.Pod
	namespaces []*core.Namespace
}

// The whole table, which takes the place of the one that is there, in one transaction.
func (c *cluster) table() string {
	var chains, jumps strings.Builder
	for _, pod := range c.sorted() {
		if pod.Spec.NodeName != c.node {
			continue
		}
		for _, direction := range []networking.PolicyType{networking.PolicyTypeEgress, networking.PolicyTypeIngress} {
			rules, selected := c.rules(pod, direction)
			if !selected {
				continue
			}
			own := map[networking.PolicyType]string{"Ingress": "daddr", "Egress": "saddr"}[direction]
			name := strings.ToLower(string(direction)) + "-" + strings.ReplaceAll(string(pod.UID), "-", "")
			fmt.Fprintf(&jumps, "\t\tip %s %s jump %s\n", own, pod.Status.PodIP, name)
			fmt.Fprintf(&chains, "\tchain %s {\n", name)
			for _, rule := range rules {
				fmt.Fprintf(&chains, "\t\t%s return\n", rule)
			}
			chains.WriteString("\t\tdrop\n\t}\n")
		}
	}
	return fmt.Sprintf(
		"add table %s\ndelete table %s\ntable %s {\n%s\tchain forward {\n"+
			"\t\ttype filter hook forward priority filter; policy accept;\n"+
			"\t\tct state established,related accept\n%s\t}\n}\n",
		table, table, table, chains.String(), jumps.String())
}

// Pods with an address of their own, ordered, so that the same state gives the same text.
func (c *cluster) sorted() []*core.Pod {
	found := slices.DeleteFunc(slices.Clone(c.pods), func(pod *core.Pod) bool {
		ended := pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
		return pod.Spec.HostNetwork || pod.Status.PodIP == "" || ended
	})
	slices.SortFunc(found, func(a, b *core.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return found
}

// What policies allow one pod, and whether any selects it for this direction.
func (c *cluster) rules(pod *core.Pod, direction networking.PolicyType) (found []string, selected bool) {
	for _, policy := range c.policies {
		if policy.Namespace != pod.Namespace || !slices.Contains(policy.Spec.PolicyTypes, direction) ||
			!matches(&policy.Spec.PodSelector, pod.Labels) {
			continue
		}
		selected = true
		if direction == networking.PolicyTypeIngress {
			for _, rule := range policy.Spec.Ingress {
				found = append(found, c.rule(policy.Namespace, rule.From, rule.Ports, "saddr", []*core.Pod{pod})...)
			}
			continue
		}
		for _, rule := range policy.Spec.Egress {
			found = append(found, c.rule(policy.Namespace, rule.To, rule.Ports, "daddr", c.sorted())...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), selected
}

// One rule: every peer with every port. Ports with names are those of the pods that receive.
func (c *cluster) rule(
	space string, peers []networking.NetworkPolicyPeer, ports []networking.NetworkPolicyPort, far string, receive []*core.Pod,
) []string {
	from := []string{""}
	if len(peers) > 0 {
		from = c.peers(space, peers, far)
	}
	to := []string{""}
	if len(ports) > 0 {
		to = numbers(ports, receive)
	}
	var found []string
	for _, peer := range from {
		for _, port := range to {
			found = append(found, strings.TrimSpace(peer+port))
		}
	}
	return found
}

func (c *cluster) peers(space string, peers []networking.NetworkPolicyPeer, far string) []string {
	var found []string
	for _, peer := range peers {
		if block := peer.IPBlock; block != nil {
			text := fmt.Sprintf("ip %s %s ", far, block.CIDR)
			if len(block.Except) > 0 {
				text += fmt.Sprintf("ip %s != { %s } ", far, strings.Join(block.Except, ", "))
			}
			found = append(found, text)
			continue
		}
		for _, pod := range c.sorted() {
			if c.isPeer(space, peer, pod) {
				found = append(found, fmt.Sprintf("ip %s %s ", far, pod.Status.PodIP))
			}
		}
	}
	return found
}

func (c *cluster) isPeer(space string, peer networking.NetworkPolicyPeer, pod *core.Pod) bool {
	if peer.PodSelector != nil && !matches(peer.PodSelector, pod.Labels) {
		return false
	}
	if peer.NamespaceSelector == nil {
		return pod.Namespace == space
	}
	return slices.ContainsFunc(c.namespaces, func(one *core.Namespace) bool {
		return one.Name == pod.Namespace && matches(peer.NamespaceSelector, one.Labels)
	})
}

func numbers(ports []networking.NetworkPolicyPort, receive []*core.Pod) []string {
	var found []string
	for _, port := range ports {
		protocol := core.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		name := strings.ToLower(string(protocol))
		switch {
		case port.Port == nil:
			found = append(found, "meta l4proto "+name)
		case port.EndPort != nil:
			found = append(found, fmt.Sprintf("%s dport %d-%d", name, port.Port.IntVal, *port.EndPort))
		case port.Port.Type == intstr.Int:
			found = append(found, fmt.Sprintf("%s dport %d", name, port.Port.IntVal))
		default:
			found = append(found, named(port.Port.StrVal, protocol, name, receive)...)
		}
	}
	return found
}

func named(wanted string, protocol core.Protocol, name string, receive []*core.Pod) []string {
	var found []string
	for _, pod := range receive {
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if port.Name == wanted && port.Protocol == protocol {
					found = append(found, fmt.Sprintf("ip daddr %s %s dport %d", pod.Status.PodIP, name, port.ContainerPort))
				}
			}
		}
	}
	return found
}

// An empty selector matches everything; one that the API server let pass is valid.
func matches(selector *meta.LabelSelector, of map[string]string) bool {
	found, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && found.Matches(labels.Set(of))
}
