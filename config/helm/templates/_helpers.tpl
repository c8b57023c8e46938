{{- /* Fails if a section of the values is null, which removes the chart's defaults: templates would fail without a reason. */}}
{{- define "checkSections" -}}
{{- range list "commonLabels" "commonAnnotations" "image" "imagePullSecrets" "autoscaling" "indexCache" "catalog" "explain" "log"
  "podLabels" "podAnnotations" "storage" "storage.settings" "retention" "notify" "collectors" "collectors.settings"
  "collectors.namespaces" "collectors.serviceAccount" "serviceAccount" "live" "auth" "service" "tls" "allowedHosts" "ingress"
  "ingress.extraHosts" "httpRoute" "networkPolicy" "monitoring" "webhook" "webhook.certManager" "webhook.collectorImage"
  "webhook.settings" (printf "storage.%s" ($.Values.storage).backend) "auth.token" "auth.oidc" }}
{{- $at := $.Values }}
{{- range splitList "." . }}{{ $at = index $at . }}{{ end }}
{{- if kindIs "invalid" $at }}
{{- fail (printf "%s is null, which removes the chart's defaults: leave it out, or set what is in it" .) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The name of the release's objects, short enough for the longest ending. */}}
{{- define "fullname" -}}
{{- if and .Values.nameOverride (not .Values.fullnameOverride) }}{{ printf "%s-%s" .Release.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}{{ .Values.fullnameOverride | default .Release.Name | trunc 53 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "labels" -}}
{{- $own := dict "app" (include "fullname" .) "app.kubernetes.io/name" "historyserver" "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/managed-by" .Release.Service "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version) }}
{{- merge $own .Values.commonLabels | toYaml }}
{{- end }}

{{- /* Labels and annotations of an object. After the chart come further annotations and labels, as in (list . annotations labels). */}}
{{- define "meta" -}}
{{- $root := first . }}
{{- $annotations := dict }}
{{- if gt (len .) 1 }}{{ $annotations = index . 1 | default dict }}{{ end }}
{{- $labels := include "labels" $root | fromYaml }}
{{- if gt (len .) 2 }}{{ $labels = merge $labels (index . 2) }}{{ end -}}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with merge (dict) $annotations $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Of objects that belong to the whole cluster: those of two releases must have different names. */}}
{{- define "clusterName" -}}
{{ .Release.Namespace }}-{{ include "fullname" . }}
{{- end }}

{{- define "serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "fullname" .) }}
{{- end }}

{{- /* An image of the values, as in (list . .Values.image). */}}
{{- define "image" -}}
{{- $root := first . }}
{{- with last . }}
{{- with .registry | default ($root.Values.global).imageRegistry }}{{ . }}/{{ end }}{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $root.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* The Secrets for private registries, of the chart and of the charts above it. */}}
{{- define "pullSecrets" -}}
{{- with concat .Values.imagePullSecrets ((.Values.global).imagePullSecrets | default list) }}
imagePullSecrets:
{{- range . }}
- {{ ternary . (dict "name" .) (kindIs "map" .) | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Where pods run. The second of the list are the pod's own values, which come before the server's. */}}
{{- define "scheduling" -}}
{{- $root := first . }}
{{- $own := last . }}
{{- with $own.priorityClassName | default $root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $own $name | default (get $root.Values $name) }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The names of what collectors need: the ConfigMap and the Secret, the service account and the network policy. */}}
{{- define "storageName" -}}
{{ .Values.collectors.prefix }}-storage
{{- end }}
{{- define "collectorName" -}}
{{ .Values.collectors.prefix }}-collector
{{- end }}
{{- define "collectorAccount" -}}
{{ .Values.collectors.serviceAccount.name | default (include "collectorName" .) }}
{{- end }}

{{- /* The account for collectors' pods that name none; empty where they need none to get into the store, and where the
webhook's settings say so. */}}
{{- define "podAccount" -}}
{{- $settings := .Values.webhook.settings }}
{{- $keys := or .Values.storage.secret .Values.storage.existingSecret $settings.RAYHISTORY_ENV_FROM_SECRET (eq .Values.storage.backend "local") }}
{{- if hasKey $settings "RAYHISTORY_SERVICE_ACCOUNT" }}{{ $settings.RAYHISTORY_SERVICE_ACCOUNT | default "" }}
{{- else if or (not $keys) .Values.collectors.serviceAccount.annotations }}{{ include "collectorAccount" . }}{{ end -}}
{{- end }}

{{- /* The names by which browsers reach the server. */}}
{{- define "hosts" -}}
{{- $hosts := list }}
{{- with .Values.ingress }}
{{- if .enabled }}
{{- $hosts = concat $hosts (list (required "ingress.host: say by which name browsers reach the server" .host)) .extraHosts }}
{{- end }}
{{- end }}
{{- with .Values.httpRoute }}
{{- if .enabled }}
{{- if not .hostnames }}{{ fail "httpRoute.hostnames: say by which names browsers reach the server" }}{{ end }}
{{- $hosts = concat $hosts .hostnames }}
{{- end }}
{{- end }}
{{- concat $hosts .Values.allowedHosts | uniq | toJson }}
{{- end }}

{{- /* The server's address for people; empty if the values do not say it. */}}
{{- define "publicURL" -}}
{{- if or .Values.ingress.enabled .Values.httpRoute.enabled }}
{{- $plain := and .Values.ingress.enabled (not .Values.ingress.tlsSecret) (not .Values.ingress.tls) -}}
http{{ if not $plain }}s{{ end }}://{{ include "hosts" . | fromJsonArray | first }}
{{- end }}
{{- end }}

{{- define "storageSecret" -}}
{{ .Values.storage.existingSecret | default (include "storageName" .) }}
{{- end }}

{{- define "authSecret" -}}
{{- if eq .Values.auth.mode "token" -}}
{{ .Values.auth.token.existingSecret | default (printf "%s-auth" (include "fullname" .)) }}
{{- else -}}
{{ .Values.auth.oidc.existingSecret | default (printf "%s-auth" (include "fullname" .)) }}
{{- end -}}
{{- end }}

{{- /* The Secret with the addresses and keys of receivers; empty if there is none. */}}
{{- define "notifySecret" -}}
{{- with .Values.notify }}
{{- if .existingSecret }}{{ .existingSecret }}{{ else if .secrets }}{{ include "fullname" $ }}-notify{{ end -}}
{{- end -}}
{{- end }}

{{- /* The files of the ConfigMap with settings; empty if there are none. */}}
{{- define "settings" -}}
{{- if and (eq .Values.auth.mode "oidc") .Values.auth.oidc.namespaces }}
namespaces.yaml: |
  {{- toYaml .Values.auth.oidc.namespaces | nindent 2 }}
{{- end }}
{{- if and (eq .Values.auth.mode "oidc") .Values.auth.oidc.ca }}
oidc-ca.pem: |
  {{- .Values.auth.oidc.ca | nindent 2 }}
{{- end }}
{{- with .Values.retention.rules }}
retention.yaml: |
  {{- dict "rules" . | toYaml | nindent 2 }}
{{- end }}
{{- with .Values.prices }}
prices.yaml: |
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.notify }}
{{- if .receivers }}
webhooks.yaml: |
  {{- dict "public_url" (.publicURL | default (include "publicURL" $)) "receivers" .receivers | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether the server asks Kubernetes who somebody is and what they may see. */}}
{{- define "asksKubernetes" -}}
{{- if or (eq .Values.auth.mode "kubernetes") (and (eq .Values.auth.mode "oidc") (not .Values.auth.oidc.namespaces)) }}yes{{ end -}}
{{- end }}

{{- /* The settings of collectors beside those of the storage, as JSON. */}}
{{- define "collectorSettings" -}}
{{- $all := deepCopy .Values.collectors.settings }}
{{- with .Values.kubernetesCluster }}{{ $_ := set $all "RAYHISTORY_KUBERNETES_CLUSTER" . }}{{ end }}
{{- toJson $all }}
{{- end }}

{{- /* The namespaces of collectors, the release's own among them. */}}
{{- define "collectorNamespaces" -}}
{{ append .Values.collectors.namespaces .Release.Namespace | uniq | toJson }}
{{- end }}

{{- /* A setting's value as text. Helm reads all numbers as floats, and would write 1000000 as 1e+06. */}}
{{- define "settingText" -}}
{{- $value := last . }}
{{- if and (kindIs "float64" $value) (or (gt $value 9e15) (lt $value -9e15)) }}
{{- fail (printf "%s: Helm cannot read such a large number exactly: write it in quotes" (first .)) }}
{{- end }}
{{- if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{ printf "%.0f" $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- define "setting" -}}
{{ include "settingText" . | quote }}
{{- end }}

{{- /* Flags of the server by name. Those that are null keep the server's own defaults. */}}
{{- define "flags" -}}
{{- range $flag, $value := . }}
{{- if not (kindIs "invalid" $value) }}
- {{ printf "--%s=%s" $flag (include "settingText" (list $flag $value)) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A size such as 10GiB, 12Gi or 12G in bytes: units are powers of 1000, and of 1024 with an i. */}}
{{- define "bytes" -}}
{{- $text := . | trim | upper }}
{{- $number := regexFind "^[0-9.]+(E[0-9]+)?" $text }}
{{- $unit := trimPrefix $number $text | trim }}
{{- $base := ternary 1024 1000 (contains "I" $unit) }}
{{- $power := get (dict "K" 1 "M" 2 "G" 3 "T" 4 "P" 5 "E" 6) (trunc 1 $unit) | default 0 }}
{{- $bytes := float64 $number }}
{{- range until $power }}{{ $bytes = mulf $bytes $base }}{{ end }}
{{- $bytes | int64 }}
{{- end }}

{{- /* The settings of the backend as environment variables. */}}
{{- define "storageSettings" -}}
{{- $s := .Values.storage }}
{{- $all := dict "STORAGE_BACKEND" $s.backend }}
{{- if eq $s.backend "s3" }}
{{- $_ := set $all "S3_BUCKET" (required "storage.s3.bucket: say in which bucket history is stored" $s.s3.bucket) }}
{{- $_ := set $all "S3_REGION" $s.s3.region }}
{{- $_ := set $all "S3_ENDPOINT" $s.s3.endpoint }}
{{- if $s.s3.forcePathStyle }}{{ $_ := set $all "S3FORCE_PATH_STYLE" "true" }}{{ end }}
{{- else if eq $s.backend "gcs" }}
{{- $_ := set $all "GCS_BUCKET" (required "storage.gcs.bucket: say in which bucket history is stored" $s.gcs.bucket) }}
{{- else if eq $s.backend "azureblob" }}
{{- $_ := set $all "AZURE_STORAGE_CONTAINER" (required "storage.azureblob.container: say in which container history is stored" $s.azureblob.container) }}
{{- $_ := set $all "AZURE_STORAGE_ACCOUNT_URL" $s.azureblob.accountURL }}
{{- $_ := set $all "AZURE_STORAGE_AUTH_MODE" $s.azureblob.authMode }}
{{- else if eq $s.backend "aliyunoss" }}
{{- $_ := set $all "OSS_BUCKET" (required "storage.aliyunoss.bucket: say in which bucket history is stored" $s.aliyunoss.bucket) }}
{{- $_ := set $all "OSS_REGION" $s.aliyunoss.region }}
{{- if $s.aliyunoss.internal }}{{ $_ := set $all "RAYHISTORY_OSS_INTERNAL" "true" }}{{ end }}
{{- else }}
{{- $_ := set $all "RAYHISTORY_LOCAL_DIR" "/data" }}
{{- end }}
{{- if $s.createBucket }}{{ $_ := set $all "RAYHISTORY_STORAGE_CREATE_BUCKET" "true" }}{{ end }}
{{- range $name, $value := merge (deepCopy $s.settings) $all }}
{{- if ne (toString $value) "" }}
{{ $name }}: {{ include "setting" (list $name $value) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A label selector that two selectors must both select by. */}}
{{- define "selector" -}}
{{- $one := first . }}
{{- $other := last . }}
{{- $all := dict }}
{{- with merge (dict) ($one.matchLabels | default dict) ($other.matchLabels | default dict) }}{{ $_ := set $all "matchLabels" . }}{{ end }}
{{- with concat ($one.matchExpressions | default list) ($other.matchExpressions | default list) }}{{ $_ := set $all "matchExpressions" . }}{{ end }}
{{- toJson $all }}
{{- end }}
