{{- define "headgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 30 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 30 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 30 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that select pods. They never change. Takes a dict with root and component. */}}
{{- define "headgate.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "headgate.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "headgate.scheme" -}}
{{- ternary "https" "http" (ne .Values.tls.secretName "") -}}
{{- end -}}

{{/* Name of the control planes' Service. It is also the only name for which clients verify certificates. */}}
{{- define "headgate.tlsName" -}}
{{- printf "%s-control-plane" (include "headgate.fullname" .) -}}
{{- end -}}

{{/* Pages that browsers open, each with its own host, as JSON. */}}
{{- define "headgate.pages" -}}
{{- $pages := list -}}
{{- if .Values.console.enabled -}}
{{- $pages = append $pages (dict "name" "console" "host" .Values.console.host "component" "control-plane" "portName" "console" "port" 8082) -}}
{{- end -}}
{{- if .Values.playground.enabled -}}
{{- $pages = append $pages (dict "name" "playground" "host" .Values.playground.host "component" "gateway" "portName" "play" "port" 8083) -}}
{{- end -}}
{{- toJson $pages -}}
{{- end -}}

{{- define "headgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "headgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: { drop: [ALL] }
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "headgate.secretEnv" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef: { name: {{ .from.name }}, key: {{ .from.key }} }
{{- end -}}

{{/* Begins with a new line unless it is empty. */}}
{{- define "headgate.tlsEnv" -}}
{{- if .Values.tls.secretName }}
- { name: HEADGATE_TLS_CERT, value: /etc/headgate/tls/tls.crt }
- { name: HEADGATE_TLS_KEY, value: /etc/headgate/tls/tls.key }
{{- if .Values.tls.hasAuthority }}
- { name: NODE_EXTRA_CA_CERTS, value: /etc/headgate/tls/ca.crt }
{{- end }}
{{- end }}
{{- end -}}

{{/* Settings of both planes. Takes a dict with root and own, which contains the plane's values. */}}
{{- define "headgate.env" -}}
{{- $values := .root.Values -}}
- name: HEADGATE_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- { name: HEADGATE_LOG, value: {{ $values.log.url | quote }} }
- { name: HEADGATE_DATA, value: /data }
- { name: HEADGATE_BIND, value: "0.0.0.0" }
- { name: HEADGATE_METRICS_BIND, value: "0.0.0.0" }
- { name: HEADGATE_DRAIN_DELAY, value: {{ .own.drainDelaySeconds | quote }} }
- { name: HEADGATE_DRAIN_TIMEOUT, value: {{ .own.drainTimeoutSeconds | quote }} }
- { name: HEADGATE_STACK_DOMAIN, value: {{ $values.hosts.stackDomain | quote }} }
{{ include "headgate.secretEnv" (dict "variable" "HEADGATE_GATEWAY_TOKEN" "from" $values.secrets.gatewayToken) }}
{{- include "headgate.tlsEnv" .root }}
{{- if $values.secrets.nodeCredentials }}
- { name: HEADGATE_NODE_CREDENTIALS, value: /etc/headgate/node-credentials }
{{- end }}
{{- with $values.trustSigners }}
- { name: HEADGATE_TRUST_SIGNER, value: {{ join "," . | quote }} }
{{- end }}
{{- with .own.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Kafka Secret of the plane, or else of both planes. Takes a dict with root, own and member. */}}
{{- define "headgate.kafkaSecret" -}}
{{- default (get .root.Values.log .member) (get .own.kafka .member) -}}
{{- end -}}

{{- define "headgate.envFrom" -}}
{{- with include "headgate.kafkaSecret" (dict "root" .root "own" .own "member" "envSecret") }}
envFrom:
  - secretRef: { name: {{ . }} }
{{- end }}
{{- end -}}

{{/* TLS and Kafka files. Their Secrets have mode 0440, because Kubernetes lets the pod's group read them. */}}
{{- define "headgate.mounts" -}}
- { name: data, mountPath: /data }
{{- if .root.Values.tls.secretName }}
- { name: tls, mountPath: /etc/headgate/tls, readOnly: true }
{{- end }}
{{- if include "headgate.kafkaSecret" (dict "root" .root "own" .own "member" "filesSecret") }}
- { name: kafka, mountPath: /etc/headgate/kafka, readOnly: true }
{{- end }}
{{- end -}}

{{- define "headgate.volumes" -}}
{{- with .root.Values.tls.secretName }}
- { name: tls, secret: { secretName: {{ . }}, defaultMode: 0440 } }
{{- end }}
{{- with include "headgate.kafkaSecret" (dict "root" .root "own" .own "member" "filesSecret") }}
- { name: kafka, secret: { secretName: {{ . }}, defaultMode: 0440 } }
{{- end }}
{{- end -}}

{{- define "headgate.nodeMounts" -}}
{{- if .Values.secrets.nodeCredentials }}
- { name: node-credentials, mountPath: /etc/headgate/node-credentials, readOnly: true }
{{- end }}
{{- end -}}

{{- define "headgate.nodeVolumes" -}}
{{- with .Values.secrets.nodeCredentials }}
- { name: node-credentials, secret: { secretName: {{ . }}, defaultMode: 0440 } }
{{- end }}
{{- end -}}

{{/*
The first fold of a long log takes minutes, during which the process is alive but not ready. A control plane without the log
serves reads, snapshots and the console, so it stays in its Service. Takes a dict with root and ready, the readiness path.
*/}}
{{- define "headgate.probes" -}}
{{- $scheme := include "headgate.scheme" .root | upper -}}
startupProbe:
  httpGet: { path: /livez, port: metrics, scheme: {{ $scheme }} }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 120
livenessProbe:
  httpGet: { path: /livez, port: metrics, scheme: {{ $scheme }} }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: {{ .ready | quote }}, port: metrics, scheme: {{ $scheme }} }
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 1
{{- end -}}

{{/* Placement of pods. Takes a dict with root, component and own. */}}
{{- define "headgate.placement" -}}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "headgate.selector" $ | nindent 8 }}
  {{- end }}
{{- with .own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "headgate.claim" -}}
volumeClaimTemplates:
  - metadata:
      name: data
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .className }}
      storageClassName: {{ . }}
      {{- end }}
      resources:
        requests: { storage: {{ .size }} }
{{- end -}}

{{/* The drain, 20 seconds until the process exits in any case, and 5 more before Kubernetes would kill it. */}}
{{- define "headgate.grace" -}}
{{- add .drainDelaySeconds .drainTimeoutSeconds 25 -}}
{{- end -}}
