{{- define "toolbus.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}{{- .Release.Name -}}{{- else -}}{{- printf "%s-%s" .Release.Name $name -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of this release; with a component, those of one service: (dict "root" . "component" ?) */}}
{{- define "toolbus.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "toolbus.labels" -}}
{{ include "toolbus.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: toolbus
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "toolbus.image" -}}
{{- with .root.Values.image.registry }}{{ . }}/{{ end -}}
{{- .root.Values.image.repository }}/{{ .image }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{- end -}}

{{/* The hosts of the broker's nodes, with commas between. */}}
{{- define "toolbus.brokerHosts" -}}
{{- if .Values.rabbitmq.enabled -}}
{{- include "toolbus.fullname" . }}-rabbitmq
{{- else if and .Values.broker.host .Values.broker.hosts -}}
{{- fail "broker.host and broker.hosts are both set: the one is for a single address, the other for the nodes of a cluster" -}}
{{- else if .Values.broker.hosts -}}
{{- join "," .Values.broker.hosts -}}
{{- else -}}
{{- required "broker.host must be set: the host of RabbitMQ, or rabbitmq.enabled for one to try things out" .Values.broker.host -}}
{{- end -}}
{{- end -}}

{{/* The URL of each of the broker's nodes, without a password. */}}
{{- define "toolbus.brokerUrls" -}}
{{- $broker := .Values.broker -}}
{{- $urls := list -}}
{{- range splitList "," (include "toolbus.brokerHosts" .) -}}
{{- $urls = append $urls (printf "%s://%s@%s:%d/%s" (ternary "amqps" "amqp" $broker.tls) (urlquery $broker.user) . (int $broker.port) (urlquery $broker.virtualHost | replace "+" "%20")) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{- define "toolbus.brokerSecret" -}}
{{- .Values.broker.existingSecret | default (printf "%s-broker" (include "toolbus.fullname" .)) -}}
{{- end -}}

{{- define "toolbus.grantsSecret" -}}
{{- .Values.grants.existingSecret | default (printf "%s-grants" (include "toolbus.fullname" .)) -}}
{{- end -}}

{{/* The key of the agent's signing key in that secret, where there is one. */}}
{{- define "toolbus.signingGrantKey" -}}
{{- if .Values.grants.existingSecret -}}
{{- .Values.grants.signingKeyKey -}}
{{- else -}}
signing-key
{{- end -}}
{{- end -}}

{{/* The key of the workers' public keys in that secret, where there are some. */}}
{{- define "toolbus.publicGrantKeys" -}}
{{- if .Values.grants.existingSecret -}}
{{- .Values.grants.publicKeysKey -}}
{{- else -}}
public-keys
{{- end -}}
{{- end -}}

{{/* The key of the shared key in that secret, while it counts: nothing in a new release that draws its keys. */}}
{{- define "toolbus.sharedGrantKey" -}}
{{- $grants := .Values.grants -}}
{{- $choice := toString $grants.sharedKey -}}
{{- $there := dict -}}
{{- if not $grants.existingSecret -}}
{{- $there = lookup "v1" "Secret" .Release.Namespace (include "toolbus.grantsSecret" .) | default dict -}}
{{- end -}}
{{- $isThere := hasKey ($there.data | default dict) $grants.keyKey -}}
{{- if and (ne $choice "false") (or $grants.existingSecret $grants.key (eq $choice "true") $isThere) -}}
{{- $grants.keyKey -}}
{{- end -}}
{{- end -}}

{{/* The text form of the public half of an Ed25519 key in PEM. The functions of a template make a certificate of it, and
     the key stands in there behind the 12 bytes that begin every such public key (RFC 8410). */}}
{{- define "toolbus.publicGrantKey" -}}
{{- $expected := "grants.signingKey is no Ed25519 key in PEM: `openssl genpkey -algorithm ed25519` makes one" -}}
{{- if not (hasPrefix "-----BEGIN PRIVATE KEY-----" .) -}}
{{- fail $expected -}}
{{- end -}}
{{- $certificate := genSelfSignedCertWithKey "grants" (list) (list) 1 . -}}
{{- $der := regexReplaceAll "-----[A-Z ]+-----|\\s" $certificate.Cert "" | b64dec -}}
{{- $parts := splitList (b64dec "MCowBQYDK2VwAyEA") $der -}}
{{- if ne (len $parts) 2 -}}
{{- fail $expected -}}
{{- end -}}
ed25519-public:{{ index $parts 1 | substr 0 32 | b64enc }}
{{- end -}}

{{/* The key of the shared key before the current one in that secret, where there is one. */}}
{{- define "toolbus.previousGrantKey" -}}
{{- if not (include "toolbus.sharedGrantKey" .) -}}
{{- else if .Values.grants.existingSecret -}}
{{- .Values.grants.previousKeyKey -}}
{{- else if .Values.grants.previousKey -}}
previous-key
{{- end -}}
{{- end -}}

{{/* The settings of grants: (dict "root" . "grants" "agent" or "worker") */}}
{{- define "toolbus.grantsEnvironment" -}}
{{- $shared := include "toolbus.sharedGrantKey" .root -}}
{{- $half := ternary (include "toolbus.publicGrantKeys" .root) (include "toolbus.signingGrantKey" .root) (eq .grants "worker") -}}
{{- if not (or $shared $half) -}}
{{- fail "grants.existingSecret has no key that counts: name those of signing-key and public-keys by grants.signingKeyKey and grants.publicKeysKey, or leave grants.sharedKey at auto" -}}
{{- end -}}
{{- if $shared -}}
- {name: TOOLBUS_GRANTS__KEY_FILE, value: /etc/toolbus/grants/key}
{{ end -}}
{{- if and $half (eq .grants "agent") -}}
- {name: TOOLBUS_GRANTS__SIGNING_KEY_FILE, value: /etc/toolbus/grants/signing-key}
{{- end -}}
{{- if eq .grants "worker" -}}
{{- if $half -}}
- {name: TOOLBUS_GRANTS__PUBLIC_KEYS_FILE, value: /etc/toolbus/grants/public-keys}
{{- end }}
{{- if include "toolbus.previousGrantKey" .root }}
- {name: TOOLBUS_GRANTS__PREVIOUS_KEY_FILE, value: /etc/toolbus/grants/previous-key}
{{- end }}
- {name: TOOLBUS_GRANTS__REQUIRED, value: {{ .root.Values.grants.required | quote }}}
{{- end }}
{{- end -}}

{{/* The volume that the keys are in: (dict "root" . "grants" "agent" or "worker") */}}
{{- define "toolbus.grantsVolume" -}}
{{- $shared := include "toolbus.sharedGrantKey" .root -}}
{{- $previous := include "toolbus.previousGrantKey" .root -}}
{{- $signing := include "toolbus.signingGrantKey" .root -}}
{{- $public := include "toolbus.publicGrantKeys" .root -}}
- name: grants
  secret:
    secretName: {{ include "toolbus.grantsSecret" .root }}
    defaultMode: 0440
    items:
      {{- if $shared }}
      - {key: {{ $shared }}, path: key}
      {{- end }}
      {{- if and $signing (eq .grants "agent") }}
      - {key: {{ $signing }}, path: signing-key}
      {{- end }}
      {{- if and $public (eq .grants "worker") }}
      - {key: {{ $public }}, path: public-keys}
      {{- end }}
      {{- if and $previous (eq .grants "worker") }}
      - {key: {{ $previous }}, path: previous-key}
      {{- end }}
{{- end -}}

{{- define "toolbus.openrouterSecret" -}}
{{- .Values.openrouterMcp.existingSecret | default (printf "%s-openrouter" (include "toolbus.fullname" .)) -}}
{{- end -}}

{{/* The secret that has the tokens of the agent's clients; nothing where they need none, or have them elsewhere. */}}
{{- define "toolbus.clientsSecret" -}}
{{- $clients := .Values.agentHost.clients | default dict -}}
{{- if and .Values.agentHost.enabled (or .Values.agentHost.mcp.enabled .Values.agentHost.http.enabled) -}}
{{- if and $clients.existingSecret $clients.tokens -}}
{{- fail "agentHost.clients.existingSecret and agentHost.clients.tokens are both set: put all tokens into one secret" -}}
{{- else if and $clients.anonymous (or $clients.existingSecret $clients.tokens) -}}
{{- fail "agentHost.clients.anonymous says that clients need no token, and others of agentHost.clients give them some: leave one out" -}}
{{- else if $clients.existingSecret -}}
{{- $clients.existingSecret -}}
{{- else if or $clients.tokens (include "toolbus.drawsToken" .) -}}
{{- printf "%s-clients" (include "toolbus.fullname" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether a token is drawn: where clients have none, and nobody says that they need none. */}}
{{- define "toolbus.drawsToken" -}}
{{- $values := .Values.agentHost -}}
{{- $clients := $values.clients | default dict -}}
{{- $http := get ($values.settings | default dict) "http" | default dict -}}
{{- $face := get ($values.settings | default dict) "mcp_face" | default dict -}}
{{- $isSaid := or $clients.existingSecret $clients.tokens $clients.anonymous $http.tokens $http.token_files $http.anonymous $face.anonymous -}}
{{- range $values.env -}}
{{- $isSaid = or $isSaid (regexMatch "^TOOLBUS_(HTTP__TOKENS__|HTTP__TOKEN_FILES__|HTTP__ANONYMOUS$|MCP_FACE__ANONYMOUS$)" .name) -}}
{{- end -}}
{{- if not $isSaid }}true{{ end -}}
{{- end -}}

{{/*
Ends where settings hold a secret, since they become a ConfigMap: a token or a key that is not named by a
reference, or a password in an address. (dict "value" .Values.agentHost.settings "path" "agentHost.settings" "isSecret" false)
*/}}
{{- define "toolbus.refuseSecrets" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value -}}
{{- range $name, $value := .value -}}
{{- $isSecret := or (has $name (list "api_key" "auth_credential" "client_secret")) (eq $path "agentHost.settings.http.tokens") -}}
{{- include "toolbus.refuseSecrets" (dict "value" $value "path" (printf "%s.%s" $path $name) "isSecret" $isSecret) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $at, $value := .value -}}
{{- include "toolbus.refuseSecrets" (dict "value" $value "path" (printf "%s[%d]" $path $at) "isSecret" false) -}}
{{- end -}}
{{- else if .value -}}
{{- $text := toString .value -}}
{{- $isReference := regexMatch `^\s*\$\{(vault:)?[A-Za-z0-9_.-]+\}\s*$` $text -}}
{{- if and .isSecret (not $isReference) -}}
{{- fail (printf "%s holds a secret, and settings become a ConfigMap, which is none: put it into a Secret that agentHost.envFrom names, and name it here as \"${NAME}\"%s" $path (ternary "; tokens may also be in the secret of agentHost.clients.existingSecret" "" (hasPrefix "agentHost.settings.http.tokens." $path))) -}}
{{- else if eq $path "agentHost.settings.grants.key" -}}
{{- fail "agentHost.settings.grants.key holds a secret, and settings become a ConfigMap, which is none: the chart's own values `grants` are for it" -}}
{{- else if regexMatch `^[A-Za-z][A-Za-z0-9+.-]*://[^/?#@]*:[^/?#@]+@` $text -}}
{{- fail (printf "%s holds a password, and settings become a ConfigMap, which is no secret: set it by its variable (docs/configuration.md), out of a Secret that agentHost.envFrom names" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "toolbus.indexSecret" -}}
{{- .Values.scripts.packages.existingSecret | default (printf "%s-package-index" (include "toolbus.fullname" .)) -}}
{{- end -}}

{{- define "toolbus.packagesClaim" -}}
{{- .Values.scripts.packages.existingClaim | default (printf "%s-packages" (include "toolbus.fullname" .)) -}}
{{- end -}}

{{/* mcp.json, out of the values. */}}
{{- define "toolbus.mcpJson" -}}
{{- $servers := deepCopy .Values.mcpBridge.servers -}}
{{- if and .Values.openrouterMcp.enabled (not (hasKey $servers "openrouter")) -}}
{{- $_ := set $servers "openrouter" (dict "type" "http" "url" (printf "http://%s-openrouter-mcp:8080/mcp" (include "toolbus.fullname" .))) -}}
{{- end -}}
{{- dict "mcpServers" $servers | toPrettyJson -}}
{{- end -}}

{{- define "toolbus.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "toolbus.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/*
A service's Deployment:
(dict "root" . "component" "mcp-bridge" "image" "mcp-bridge" "values" .Values.mcpBridge "bus" true "token" false "scaled" false
      "grants" "worker" "strategy" "Recreate" "arguments" (list …) "environment" (list …) "environmentFrom" (list …) "mounts" (list …) "volumes" (list …) "ports" (list …))
*/}}
{{- define "toolbus.deployment" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "toolbus.fullname" $root) .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "toolbus.labels" . | nindent 4 }}
spec:
  {{- if not .scaled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  {{- with .strategy }}
  strategy: {type: {{ . }}}
  {{- end }}
  selector:
    matchLabels:
      {{- include "toolbus.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "toolbus.labels" . | nindent 8 }}
        {{- if .bus }}
        toolbus.dev/bus: "true"
        {{- end }}
      {{- with .values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: {{ .token | default false }}
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      securityContext:
        {{- include "toolbus.podSecurity" $root | nindent 8 }}
      # shutdown.grace of the services is 20 s, and the fleet needs a moment beside it.
      terminationGracePeriodSeconds: 30
      enableServiceLinks: false
      containers:
        - name: {{ .component }}
          image: {{ include "toolbus.image" . }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ .arguments | toJson }}
          env:
            - {name: TOOLBUS_LOG__FILTER, value: {{ $root.Values.log.filter | quote }}}
            {{- with $root.Values.telemetry.endpoint }}
            - {name: TOOLBUS_TELEMETRY__ENDPOINT, value: {{ . | quote }}}
            {{- end }}
            {{- if .bus }}
            - {name: TOOLBUS_BUS__URL, value: {{ include "toolbus.brokerUrls" $root | quote }}}
            - {name: TOOLBUS_BUS__PASSWORD_FILE, value: /etc/toolbus/broker/password}
            {{- end }}
            {{- if and .grants $root.Values.grants.enabled }}
            {{- include "toolbus.grantsEnvironment" . | nindent 12 }}
            {{- end }}
            {{- range .environment }}
            - {{ toJson . }}
            {{- end }}
            {{- with .values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with concat (.environmentFrom | default list) (.values.envFrom | default list) }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - {name: health, containerPort: 8081}
            {{- range .ports }}
            - {{ toJson . }}
            {{- end }}
          startupProbe:
            # Alive is soon; ready is when the broker is there, which may take its time.
            httpGet: {path: /healthz, port: 8081}
            periodSeconds: 1
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: 8081}
            periodSeconds: 15
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: 8081}
            periodSeconds: 3
            timeoutSeconds: 3
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "toolbus.containerSecurity" $root | nindent 12 }}
          volumeMounts:
            {{- if .bus }}
            - {name: broker, mountPath: /etc/toolbus/broker, readOnly: true}
            {{- end }}
            {{- if and .grants $root.Values.grants.enabled }}
            - {name: grants, mountPath: /etc/toolbus/grants, readOnly: true}
            {{- end }}
            {{- range .mounts }}
            - {{ toJson . }}
            {{- end }}
      volumes:
        {{- if .bus }}
        - name: broker
          secret:
            secretName: {{ include "toolbus.brokerSecret" $root }}
            defaultMode: 0440
            items: [{key: {{ $root.Values.broker.passwordKey }}, path: password}]
        {{- end }}
        {{- if and .grants $root.Values.grants.enabled }}
        {{- include "toolbus.grantsVolume" . | nindent 8 }}
        {{- end }}
        {{- range .volumes }}
        - {{ toJson . }}
        {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "toolbus.labels" . | nindent 4 }}
automountServiceAccountToken: false
{{- if $root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "toolbus.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "toolbus.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* The volume that a component keeps its state on: (dict "root" . "component" "…" "values" …) */}}
{{- define "toolbus.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ include "toolbus.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "toolbus.labels" . | nindent 4 }}
  {{- if .values.keep }}
  annotations: {helm.sh/resource-policy: keep}
  {{- end }}
spec:
  accessModes: [{{ .values.accessMode }}]
  {{- with .values.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources: {requests: {storage: {{ .values.size }}}}
{{- end -}}

{{/* A ScaledObject of KEDA: (dict "root" . "component" "…" "values" … "queue" "…") */}}
{{- define "toolbus.scaled" -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ include "toolbus.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "toolbus.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {name: {{ include "toolbus.fullname" .root }}-{{ .component }}}
  minReplicaCount: {{ .values.minReplicas }}
  maxReplicaCount: {{ .values.maxReplicas }}
  triggers:
    - type: rabbitmq
      metadata:
        protocol: amqp
        queueName: {{ .queue }}
        mode: QueueLength
        value: {{ .values.queueLength | quote }}
      authenticationRef: {name: {{ required (printf "autoscaling.authenticationRef of %s must name a TriggerAuthentication" .component) .values.authenticationRef }}}
{{- end -}}
