{{- define "labels" -}}
app: {{ .Release.Name | quote }}
app.kubernetes.io/name: historyserver
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Of objects that belong to the whole cluster: those of two releases must have different names. */}}
{{- define "clusterName" -}}
{{ .Release.Namespace }}-{{ .Release.Name }}
{{- end }}

{{- define "serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{- define "registry" -}}
{{- with (.Values.global).imageRegistry }}{{ . }}/{{ end -}}
{{- end }}

{{- define "image" -}}
{{ include "registry" . }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "storageSecret" -}}
{{ .Values.storage.existingSecret | default "ray-history-storage" }}
{{- end }}

{{- define "authSecret" -}}
{{- if eq .Values.auth.mode "token" -}}
{{ .Values.auth.token.existingSecret | default (printf "%s-auth" .Release.Name) }}
{{- else -}}
{{ .Values.auth.oidc.existingSecret | default (printf "%s-auth" .Release.Name) }}
{{- end -}}
{{- end }}

{{- /* The Secret with the addresses and keys of receivers; empty if there is none. */}}
{{- define "notifySecret" -}}
{{- with .Values.notify }}
{{- if .existingSecret }}{{ .existingSecret }}{{ else if .secrets }}{{ $.Release.Name }}-notify{{ end -}}
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
{{- with .Values.notify }}
{{- if .receivers }}
{{- $public := .publicURL }}
{{- if and (not $public) $.Values.ingress.enabled }}
{{- $public = printf "http%s://%s" (ternary "s" "" (ne $.Values.ingress.tlsSecret "")) $.Values.ingress.host }}
{{- end }}
webhooks.yaml: |
  {{- dict "public_url" $public "receivers" .receivers | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether the server asks Kubernetes who somebody is and what they may see. */}}
{{- define "asksKubernetes" -}}
{{- if or (eq .Values.auth.mode "kubernetes") (and (eq .Values.auth.mode "oidc") (not .Values.auth.oidc.namespaces)) }}yes{{ end -}}
{{- end }}

{{- /* The namespaces of collectors, the release's own among them. */}}
{{- define "collectorNamespaces" -}}
{{ append .Values.collectors.namespaces .Release.Namespace | uniq | toJson }}
{{- end }}

{{- define "containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* A setting's value as text. Helm reads all numbers as floats, and would write 1000000 as 1e+06. */}}
{{- define "setting" -}}
{{- $value := last . }}
{{- if and (kindIs "float64" $value) (or (gt $value 9e15) (lt $value -9e15)) }}
{{- fail (printf "%s: Helm cannot read such a large number exactly: write it in quotes" (first .)) }}
{{- end }}
{{- if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{ printf "%.0f" $value | quote }}{{ else }}{{ $value | quote }}{{ end }}
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
