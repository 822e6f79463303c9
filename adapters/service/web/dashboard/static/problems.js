// Problems of a ledger (core/ledger/problem.py) and of records, for a person: numbers of cards, and Chinese.

import {part} from "./reasons.js";

const UNREAD = {
  "the kubelet assigned its cards, and no record says which part of them is its own": "其卡由 kubelet 分配，没有记录说明其中哪一部分属于它",
  "the kubelet chooses its cards, and has not said yet which": "其卡由 kubelet 选择，尚不知道是哪些",
  "the ledger was deleted, and what was committed to it may still be bound": "账本已被删除，其中已提交的分配可能仍会绑定",
  "has a record of amounts that no card has": "其记录中的数量超过任何一张卡",
};
const PATTERNS = [
  [/^card (\S+): (\S+) of (\S+) GiB are allocated: (.+)$/, (_, card, used, all, parts) => `卡 ${card}：显存 ${all} GiB，已分配 ${used} GiB：${parts}`],
  [/^card (\S+): (\d+%) of its compute are allocated: (.+)$/, (_, card, used, parts) => `卡 ${card}：算力已分配 ${used}：${parts}`],
  [/^card (\S+): (\d+) of (\d+) slots are in use: (.+)$/, (_, card, used, all, parts) => `卡 ${card}：共 ${all} 个槽位，已用 ${used} 个：${parts}`],
  [/^card (\S+): (\S+) and (\S+) cannot share it: (.+)$/, (_, card, one, other, cause) => {
    const why = part(cause);
    return why && `卡 ${card}：${one} 与 ${other} 不能共用：${why}`;
  }],
  [/^holds card (\S+), which the node does not have$/, (_, card) => `占用卡 ${card}，而节点没有这张卡`],
  [/^its containers exclude each other on (\S+)$/, (_, card) => `其容器在卡 ${card} 上互斥`],
  [/^runs on (\S+) without a record of its cards$/, (_, node) => `在 ${node} 上运行，但没有其卡的记录`],
];

/** A problem in Chinese; null where it is not known. The part before the colon may be a pod. */
export function inChinese(text) {
  for (const [pattern, make] of PATTERNS) {
    const found = pattern.exec(text);
    if (found) return make(...found);
  }
  if (text in UNREAD) return UNREAD[text];
  const named = /^([^\s:/]+\/[^\s:/]+|\(deleted ledger\)): (.+)$/.exec(text);
  const rest = named && inChinese(named[2]);
  return rest && `${named[1]}：${rest}`;
}

/** The text with the numbers of cards in place of their UUIDs. */
export const numbered = (text, cards) => cards.reduce((found, {uuid, index}) =>
  found.replaceAll(new RegExp(`(?<![\\w-])${uuid.replace(/[^\w-]/g, "\\$&")}(?![\\w-])`, "g"), `#${index}`), text);
