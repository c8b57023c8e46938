package layout

// Sample is one line of a Series: the hardware figures of one node at one time, from the dashboard's
// /nodes?view=summary. Lines are JSON; absent fields were not known. Sizes are in bytes, speeds in bytes per second.
type Sample struct {
	Time int64  `json:"t"`    // Unix milliseconds, of the node's own clock
	Node string `json:"node"` // hex
	// CPU is the load of all cores together in percent, 0 to 100.
	CPU float64 `json:"cpu"`
	// Mem, Disk and Store (the object store) are used and total. Disk is that of Ray's temporary folder, else of "/".
	Mem   [2]int64 `json:"mem"`
	Disk  [2]int64 `json:"disk,omitzero"`
	Store [2]int64 `json:"store,omitzero"`
	// DiskIO is read and written, Net received and sent, per second.
	DiskIO [2]int64 `json:"diskIO,omitzero"`
	Net    [2]int64 `json:"net,omitzero"`
	// GPUs are in the node's order.
	GPUs []GPUSample `json:"gpus,omitempty"`
	// Workers is how many worker processes the node has.
	Workers int `json:"workers"`
}

// GPUSample is one GPU's part of a Sample. Memory is in MiB, as Ray has it; Util is percent.
type GPUSample struct {
	Util  float64 `json:"util"`
	Used  int64   `json:"used"`
	Total int64   `json:"total"`
}
