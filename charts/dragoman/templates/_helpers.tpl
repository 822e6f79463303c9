{{- define "dragoman.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "dragoman.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "dragoman.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "dragoman.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Labels of every object. */ -}}
{{- define "dragoman.labels" -}}
app.kubernetes.io/name: {{ include "dragoman.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Labels that select pods; they never change. Takes the root and a component. */ -}}
{{- define "dragoman.selector" -}}
app.kubernetes.io/name: {{ include "dragoman.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* A reference to an image. Takes the root, the image, and the tag where it has none. */ -}}
{{- define "dragoman.image" -}}
{{- $where := trimSuffix "/" .root.Values.imageRegistry }}
{{- $name := .image.repository }}
{{- if $where }}{{ $name = printf "%s/%s" $where $name }}{{ end }}
{{- if .image.digest }}{{ printf "%s@%s" $name .image.digest }}
{{- else }}{{ printf "%s:%s" $name (default .tag .image.tag) }}{{ end }}
{{- end }}

{{- define "dragoman.secret" -}}
{{- default (printf "%s-tls" (include "dragoman.fullname" .)) .Values.certificates.secretName }}
{{- end }}

{{- define "dragoman.host" -}}
{{- printf "%s.%s.svc" (include "dragoman.fullname" .) .Release.Namespace }}
{{- end }}

{{- define "dragoman.priorityClass" -}}
{{- if .root.Values.priorityClasses.create }}{{ printf "%s-%s" (include "dragoman.fullname" .root) .component }}
{{- else }}{{ .given }}{{ end }}
{{- end }}

{{- /* Settings of every service, replica or sidecar. */ -}}
{{- define "dragoman.settings" -}}
store: kubernetes
grpc: "off"
namespace: {{ .Release.Namespace }}
{{- $settings := deepCopy .Values.service.settings }}
{{- $policy := default dict $settings.policy }}
{{- if and (hasKey .Values "metaxsGPUTopologyAware") (not (hasKey $policy "topologyAware")) }}
{{- $_ := set $settings "policy" (set $policy "topologyAware" .Values.metaxsGPUTopologyAware) }}
{{- end }}
{{ toYaml $settings }}
{{- if .Values.preemption.enabled }}
preemption: {enabled: true}
{{- end }}
{{- if .Values.defrag.enabled }}
moves: {enabled: true}
{{- end }}
{{- if .Values.dra.enabled }}
dra: {claims: true, arbiter: {{ .Values.dra.arbiter.enabled }}, shadows: {{ .Values.dra.shadows.enabled }}}
{{- end }}
{{- end }}

{{- /* The container of a sidecar: schedulers call it at 127.0.0.1. */ -}}
{{- define "dragoman.sidecar" -}}
name: dragoman
image: {{ include "dragoman.image" (dict "root" . "image" .Values.service.image "tag" .Chart.AppVersion) }}
imagePullPolicy: {{ .Values.service.image.pullPolicy }}
args: [serve, --config, /etc/dragoman/sidecar.yaml]
env:
  {{- include "dragoman.replica" . | nindent 2 }}
ports:
  - {name: dragoman, containerPort: {{ .Values.service.port }}}
livenessProbe:
  exec:
    command:
      - python
      - -c
      - import urllib.request as r; r.urlopen("http://127.0.0.1:{{ .Values.service.port }}/livez", timeout=5)
  periodSeconds: 20
  timeoutSeconds: 10
resources:
  {{- toYaml .Values.service.resources | nindent 2 }}
securityContext:
  {{- include "dragoman.confined" . | nindent 2 }}
volumeMounts:
  - {name: dragoman, mountPath: /etc/dragoman, readOnly: true}
{{- end }}

{{- /* By which a replica that starts again knows its Lease. */ -}}
{{- define "dragoman.replica" -}}
- {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
{{- end }}

{{- define "dragoman.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* Annotations that only a scheduler may write; a test compares them with the registry of dialects. */ -}}
{{- define "dragoman.resultKeys" -}}
{{ .Files.Get "files/result-keys.txt" | trim | splitList "\n" | toJson }}
{{- end }}

{{- /* Annotations of a request on which other pods of the card depend. */ -}}
{{- define "dragoman.requestKeys" -}}
{{ .Files.Get "files/request-keys.txt" | trim | splitList "\n" | toJson }}
{{- end }}

{{- /* The accounts under which a service runs. */ -}}
{{- define "dragoman.subjects" -}}
{{- if .Values.service.enabled }}
- kind: ServiceAccount
  name: {{ include "dragoman.fullname" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
{{- range .Values.sidecars }}
- kind: ServiceAccount
  name: {{ .serviceAccount }}
  namespace: {{ .namespace }}
{{- end }}
{{- end }}

{{- /* The common part of both webhooks. Takes the root and a path. */ -}}
{{- define "dragoman.webhook" -}}
admissionReviewVersions: [v1]
sideEffects: NoneOnDryRun
failurePolicy: {{ .policy.failurePolicy }}
timeoutSeconds: {{ .policy.timeoutSeconds }}
clientConfig:
  service:
    name: {{ include "dragoman.fullname" .root }}
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: 443
  {{- if and (eq .root.Values.certificates.source "secret") .root.Values.certificates.caBundle }}
  caBundle: {{ .root.Values.certificates.caBundle | b64enc }}
  {{- end }}
namespaceSelector:
  {{- include "dragoman.namespaces" .root | nindent 2 }}
{{- end }}

{{- /* Prefixes of resources by which a pod may request a share, as a CEL list. */ -}}
{{- define "dragoman.prefixes" -}}
[{{ range $i, $prefix := .Values.webhooks.resourcePrefixes }}{{ if $i }}, {{ end }}'{{ $prefix }}'{{ end }}]
{{- end }}

{{- /*
Resources that a vendor's own device plugin serves, as a CEL list: alone in a pod they request no share, and the pod is none of
ours before it is bound to a node of the ledger.
*/ -}}
{{- define "dragoman.plainResources" -}}
['nvidia.com/gpu', 'nvidia.com/gpu.shared', 'amd.com/gpu', 'dcu.com/gpu', 'metax-tech.com/gpu']
{{- end }}

{{- /* Annotations beside which `nvidia.com/gpu` is a request of HAMi, as a CEL list. */ -}}
{{- define "dragoman.hamiAnnotations" -}}
{{ .Files.Get "files/hami-annotations.txt" | trim | splitList "\n" | toJson }}
{{- end }}

{{- /* The namespaces of the webhooks. */ -}}
{{- define "dragoman.namespaces" -}}
{{- with .Values.webhooks.namespaceSelector.matchLabels }}
matchLabels:
  {{- toYaml . | nindent 2 }}
{{- end }}
matchExpressions:
  # Pods of the cluster itself, and our own, must start while the service does not answer.
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ append .Values.webhooks.excludedNamespaces .Release.Namespace | uniq | toJson }}
  {{- with .Values.webhooks.namespaceSelector.matchExpressions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "dragoman.confinedRoot" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsUser: 0
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* The configuration of the node agent, as configs/node.yaml. */ -}}
{{- define "dragoman.nodeSettings" -}}
socket: /var/run/nri/nri.sock
plugin:
  name: {{ .Values.node.plugin.name }}
  index: {{ .Values.node.plugin.index | quote }}
inventory:
  source: {{ .Values.node.inventory.source }}
  {{- with .Values.node.inventory.ignoreXids }}
  ignoreXids: {{ toJson . }}
  {{- end }}
  {{- if eq .Values.node.inventory.source "file" }}
  file: /etc/dragoman-inventory.yaml
  {{- end }}
publish:
  {{- toYaml (omit .Values.node.publish "kubelet") | nindent 2 }}
  {{- if not .Values.node.publish.kubelet }}
  checkpoint: ""
  {{- end }}
mig: {cut: {{ .Values.node.mig.cut }}, enable: {{ .Values.node.mig.enable }}}
monitor:
  listen: {{ ternary (printf ":%v" .Values.node.vgpuMonitor.port) "" .Values.node.vgpuMonitor.enabled | quote }}
exempt: {{ append .Values.node.exempt .Release.Namespace | uniq | toJson }}
{{- with .Values.node.profiles }}
profiles:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
