package panels

// hardwareOnly is shown for a session that has no other figures: panels of Ray's default dashboard by their IDs, which
// are the same from Ray 2.55 to 2.60, with queries that find the stored figures.
var hardwareOnly = &dashboard{Title: "Default Dashboard", Panels: []*panel{
	shares(41, "Cluster Utilization",
		"CPU (physical)", `avg(ray_node_cpu_utilization)`,
		"GPU (physical)", `sum(ray_node_gpus_utilization) / on() sum(ray_node_gpus_available)`,
		"Memory (RAM)", `sum(ray_node_mem_used) / on() sum(ray_node_mem_total) * 100`,
		"GRAM", `sum(ray_node_gram_used) / on() (sum(ray_node_gram_available) + sum(ray_node_gram_used)) * 100`,
		"Object Store Memory", `sum(ray_object_store_memory) / on() sum(ray_resources{Name="object_store_memory"}) * 100`,
		"Disk", `sum(ray_node_disk_usage) / on() (sum(ray_node_disk_free) + sum(ray_node_disk_usage)) * 100`),
	amounts(2, "Node CPU Usage", "cores",
		"CPU Usage: "+byNode, `sum(ray_node_cpu_utilization * ray_node_cpu_count / 100) by (instance, RayNodeType)`,
		"MAX", `sum(ray_node_cpu_count)`),
	shares(54, "Node CPU Usage %", "CPU Usage: "+byNode, `sum(ray_node_cpu_utilization) by (instance, RayNodeType)`),
	amounts(4, "Node Memory Usage (heap + object store)", "bytes",
		"Memory Used: "+byNode, `sum(ray_node_mem_used) by (instance, RayNodeType)`,
		"MAX", `sum(ray_node_mem_total)`),
	shares(48, "Node Memory Usage % (heap + object store)",
		"Memory Used: "+byNode, `sum(100 * ray_node_mem_used / ray_node_mem_total) by (instance, RayNodeType)`),
	amounts(6, "Node Disk Usage", "bytes",
		"Disk Used: "+byNode, `sum(ray_node_disk_usage) by (instance, RayNodeType)`,
		"MAX", `sum(ray_node_disk_free) + sum(ray_node_disk_usage)`),
	shares(57, "Node Disk Usage %",
		"Disk Used: "+byNode, `sum(100 * ray_node_disk_usage / (ray_node_disk_free + ray_node_disk_usage)) by (instance, RayNodeType)`),
	amounts(8, "Node GPU Usage", "GPUs",
		"GPU Usage: "+byGPU, `sum(ray_node_gpus_utilization / 100) by (instance, RayNodeType, GpuIndex, GpuDeviceName)`,
		"MAX", `sum(ray_node_gpus_available)`),
	shares(55, "Node GPU Usage %", "GPU Usage: "+byGPU,
		`sum(ray_node_gpus_utilization) by (instance, RayNodeType, GpuIndex, GpuDeviceName)`),
	amounts(18, "Node GPU Memory Usage (GRAM)", "bytes",
		"Used GRAM: "+byGPU, `sum(ray_node_gram_used * 1024 * 1024) by (instance, RayNodeType, GpuIndex, GpuDeviceName)`,
		"MAX", `(sum(ray_node_gram_available) + sum(ray_node_gram_used)) * 1024 * 1024`),
	shares(56, "Node GPU Memory Usage (GRAM) %", "Used GRAM: "+byGPU,
		`sum(100 * ray_node_gram_used / (ray_node_gram_available + ray_node_gram_used)) by (instance, RayNodeType, GpuIndex, GpuDeviceName)`),
	amounts(32, "Node Disk IO Speed", "Bps",
		"Write: "+byNode, `sum(ray_node_disk_io_write_speed) by (instance, RayNodeType)`,
		"Read: "+byNode, `sum(ray_node_disk_io_read_speed) by (instance, RayNodeType)`),
	amounts(20, "Node Network", "Bps",
		"Recv: "+byNode, `sum(ray_node_network_receive_speed) by (instance, RayNodeType)`,
		"Send: "+byNode, `sum(ray_node_network_send_speed) by (instance, RayNodeType)`),
	amounts(58, "Object Store Memory Usage", "bytes",
		"{{instance}}", `sum(ray_object_store_memory) by (instance)`,
		"MAX", `sum(ray_resources{Name="object_store_memory"})`),
	shares(59, "Object Store Memory Usage %", "{{instance}}",
		`sum(ray_object_store_memory) by (instance) * 100 / sum(ray_resources{Name="object_store_memory"}) by (instance)`),
}}

const (
	byNode = "{{instance}} ({{RayNodeType}})"
	byGPU  = byNode + ", gpu.{{GpuIndex}}, {{GpuDeviceName}}"
)

// amounts makes a panel of stacked lines below a dashed line that is their limit. Its arguments are legends and queries
// in turn.
func amounts(id int, title, unit string, queries ...string) *panel {
	p := lines(id, title, unit, queries)
	p.Stack, p.Fill = true, 10
	stack, fill := false, 0.0
	p.SeriesOverrides = []override{{Alias: "MAX", Dashes: true, Color: "#1F60C4", Stack: &stack, Fill: &fill}}
	return p
}

// shares makes a panel of lines that are percentages.
func shares(id int, title string, queries ...string) *panel { return lines(id, title, "%", queries) }

func lines(id int, title, unit string, queries []string) *panel {
	p := &panel{
		ID: id, Type: "graph", Title: title,
		Description: "From the hardware figures that the dashboard reported while the session ran.",
		Yaxes:       []axis{{Format: unit, Min: "0"}}, NullPointMode: "connected",
		Legend: map[string]any{"show": true, "alignAsTable": true, "values": true, "avg": true, "current": true,
			"max": true, "hideZero": true},
	}
	for i := 0; i < len(queries); i += 2 {
		p.Targets = append(p.Targets, target{Expr: queries[i+1], LegendFormat: queries[i]})
	}
	return p
}
