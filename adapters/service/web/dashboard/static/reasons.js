// Chinese for the reasons of the engine (core/requests/reason.py). A text with an unknown part stays English.

const CAUSES = {
  "no cards": "没有卡",
  "unschedulable": "不可调度",
  "lacks a label of the nodeSelector": "缺少 nodeSelector 要求的标签",
  "does not match the required node affinity": "不符合必需的节点亲和性",
  "untolerated taint": "有 Pod 不容忍的污点",
  "too few devices of the plugin free": "设备插件的空闲设备不够",
  "no device plugin states the resource": "没有设备插件提供该资源",
  "quota of the namespace": "命名空间的配额不足",
  "no card is described in the pod's dialect": "没有以该 Pod 的方言描述的卡",
  "fewer cards than asked": "卡数少于请求",
  "not enough fitting cards": "符合条件的卡不够",
  "the pod has an allocation here that is less than it requests; delete the pod first":
    "该 Pod 在此已有的分配少于其请求；请先删除该 Pod",
  "node lacks the isolation provider asked for": "节点没有所要求的隔离组件",
  "no free partition of this size in the node's partition table": "节点的分区表中没有这种大小的空闲分区",
  "not enough fitting cards within one scope of the required level": "在所要求层级的同一范围内，符合条件的卡不够",
  "containers fit one by one but not together": "各容器单独放得下，一起放不下",
  "not described in the pod's dialect": "没有以该 Pod 的方言描述",
  "held by an allocation that cannot be read": "被无法读取的分配占住",
  "in use, and the kubelet, which would choose the card, does not know it": "已被使用，而选择该卡的 kubelet 不知道",
  "pods have cards that nothing describes any more, and the kubelet may choose them": "Pod 仍占用已不再被描述的卡,而 kubelet 可能会选中它们",
  "may be in use by a pod whose card the kubelet chose": "可能正被由 kubelet 选卡的 Pod 使用",
  "its place is kept, and free once other pods have left": "已为其保留位置，其他 Pod 离开后空出",
  "unhealthy": "不健康",
  "other vendor": "厂商不同",
  "other sharing mode": "共享模式不同",
  "uuid not allowed": "UUID 不在允许范围内",
  "card type not allowed": "卡型号不在允许范围内",
  "held by tasks of a class that does not mix with this one": "被不能与此任务类别共存的任务占用",
  "held under another QoS policy": "已按其他 QoS 策略占用",
  "held by a pod of the same group": "被同组的 Pod 占用",
  "held by a pod under the same exclusion rule": "被同一互斥规则下的 Pod 占用",
  "no sharing slot left": "没有空闲的共享槽位",
  "in use, and asked for exclusively": "正在使用，而请求要求独占",
  "held exclusively": "已被独占",
  "memory": "显存",
  "compute": "算力",
  "compute fully allocated": "算力已全部分配",
  "in MIG mode, and no MIG layout of it is known": "处于 MIG 模式，且其 MIG 布局未知",
  "no MIG profile is large enough": "没有足够大的 MIG 规格",
  "no free MIG slices for a large enough profile": "足够大的 MIG 规格没有空闲切片",
};
/** Why a pod waits, beside the causes of the engine. */
const WAITS = {"cards fit, not bound yet": "有合适的卡，尚未绑定", "not evaluated yet": "尚未评估", "invalid request": "请求无效", gang: "等待同组的 Pod"};
const RESOURCES = {cards: "卡", memory: "显存", compute: "算力"};

const WHOLE = [
  [/^no node to choose from$/, () => "没有可选的节点"],
  [/^(.+); (\S+ said: .+)$/, (_, rest, message) => before(chinese(rest), message)],
  [/^0 of (\d+) nodes fit: (.+)$/, (_, total, rest) => joined(rest, `${total} 个节点都不可用：`)],
  [/^cards fit on (\d+) nodes, best (\S+)$/, (_, count, best) => `${count} 个节点上有合适的卡，最佳 ${best}`],
  [/^cards fit on (\S+)$/, (_, node) => `${node} 上有合适的卡`],
  [/^has cards of (\S+), and its Binding is not written yet$/, (_, node) => `已有 ${node} 的卡，其 Binding 尚未写入`],
];
const PART = [
  [/^(\d+) nodes?: (.+)$/, (_, nodes, rest) => after(`${nodes} 个节点：`, part(rest))],
  [/^(\d+) of (\d+) cards: (.+)$/, (_, some, all, rest) => after(`${all} 张卡中的 ${some} 张：`, part(rest))],
  [/^(\d+) cards asked for one container, node has (\d+(?: to \d+)?)$/, (_, asked, has) => `一个容器请求 ${asked} 张卡，节点只有 ${range(has)} 张`],
  [/^(.+) devices of the plugin requested, node has (.+) free$/, (_, asked, has) => `请求 ${range(asked)} 个设备，节点空闲 ${range(has)} 个`],
  [/^memory (.+) short$/, (_, amount) => `显存缺 ${range(amount)}`],
  [/^compute (\d+(?: to \d+)?%) short$/, (_, amount) => `算力缺 ${range(amount)}`],
  [/^other causes$/, () => "其他原因"],
  [/^lacks the label (.+) of the nodeSelector$/, (_, label) => `缺少 nodeSelector 要求的标签 ${label}`],
  [/^untolerated taint (\S+)$/, (_, taint) => `有 Pod 不容忍的污点 ${taint}`],
  [/^does not state (\S+)$/, (_, resource) => `不提供 ${resource}`],
  [/^(\d+ \S+): (\d+) of (\d+) free$/, (_, asked, free, every) => `${asked}：共 ${every} 个，空闲 ${free} 个`],
  [/^(\d+) of (\d+) devices free, (\d+) requested$/, (_, free, all, asked) => `共 ${all} 个设备，空闲 ${free} 个，请求 ${asked} 个`],
  [/^no device of (\S+)$/, (_, name) => `没有 ${name} 的设备`],
  [/^(\w+ \S+) is not known$/, (_, what) => `${what} 不存在或未知`],
  [/^the ledger's record cannot be read: (.+)$/, (_, why) => `账本记录无法读取：${why}`],
  [/^(.+), such as: (.+)$/, (_, head, rest) => after(`${CAUSES[head] ?? head}，例如：`, part(rest))],
  [/^quota of namespace (\S+): (cards|memory|compute) (.+) short \((.+) of (.+) used\)$/, (_, name, what, short, used, limit) =>
    `命名空间 ${name} 的配额：${RESOURCES[what]}缺 ${short}（已用 ${used}，上限 ${limit}）`],
];

const AMOUNTS = {memory: "显存", compute: "算力", "number of cards": "卡数", "exclusive use": "独占", "card types": "卡型号", "card uuids": "卡 UUID", "isolation provider": "隔离组件", "QoS policy": "QoS 策略", "rules about other pods on the card": "关于同卡其他 Pod 的规则", topology: "拓扑"};
const BY = {"the service does it with preemption.enabled": "启用 preemption.enabled 后由服务执行", "vc-scheduler does it with its action preempt": "由 vc-scheduler 的 preempt 动作执行"};
const REMEDIES = [
  [/^request less for (\S+): (.+), at most (.+)$/, (_, name, what, most) => `减少 ${name} 的请求：${AMOUNTS[what] ?? what}至多 ${most}`],
  [/^request less for (\S+): exclusive use, share the card$/, (_, name) => `${name} 不要求独占，与其他 Pod 共享卡`],
  [/^request without: (.+)$/, (_, what) => `去掉请求中的限制：${AMOUNTS[what] ?? what}`],
  [/^evict on (\S+): (.+); of lower priority, so (.+)$/, (_, node, pods, by) => `在 ${node} 上驱逐 ${pods}；其优先级较低，${BY[by] ?? by}`],
  [/^end on (\S+): (.+)$/, (_, node, pods) => `在 ${node} 上结束 ${pods}`],
  [/^let it run on (.+?): (.+)$/, (_, nodes, cause) => after(`允许它在 ${nodes} 上运行：`, part(cause))],
  [/^no single change of the request, and (.+)$/, (_, ends) => `改动请求的任何一项都不够，${ends === "no eviction on one node" ? "在一个节点上驱逐也不行" : "也不应为它结束任何 Pod"}`],
];

const range = text => text.replace(" to ", " 到 ");
const before = (head, tail) => head === null ? null : head + "；" + tail;
const after = (head, tail) => tail === null ? null : head + tail;

function first(patterns, text) {
  for (const [pattern, make] of patterns) {
    const found = pattern.exec(text);
    if (found) return make(...found);
  }
  return null;
}

/** One reason without its nodes; null where it is not known. */
export const part = text => CAUSES[text] ?? WAITS[text] ?? first(PART, text);

/** Several reasons, which begin with a number each, but for the first. */
function joined(text, head = "") {
  const parts = text.split(/; (?=\d+ (?:of \d+ cards|nodes?): )/).map(part);
  return parts.includes(null) ? null : head + parts.join("；");
}

/** The reason in Chinese; null where a part of it is not known. */
export const chinese = text => first(WHOLE, text) ?? first(REMEDIES, text) ?? joined(text);
