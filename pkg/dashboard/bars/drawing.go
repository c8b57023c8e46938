package bars

// Drawing are bars over time. Times are Unix milliseconds; X and W are in pixels, of which Pixels make the range.
type Drawing struct {
	Begin  float64 `json:"begin"` // of the session
	End    float64 `json:"end"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Pixels int     `json:"pixels"`
	Groups []Group `json:"groups"` // what colours stand for, by number
	Nodes  []Node  `json:"nodes"`
	Lanes  []*Lane `json:"lanes"` // of workers, by node and time
	Tasks  int     `json:"tasks"` // attempts that ran in the range
	// Unplaced counts those of them of which no node is known.
	Unplaced int `json:"unplaced"`
	// Longest are those of them that took longest, the longest first.
	Longest []Longest `json:"longest"`
	Folded  bool      `json:"folded"`
	Notes   []string  `json:"notes"`
}

// Node is a node's life, and how many attempts ran on it at a time.
type Node struct {
	ID    string  `json:"id"` // "" stands for several, or for attempts of which no node is known
	Name  string  `json:"name"`
	Start float64 `json:"start,omitempty"` // 0: not known
	End   float64 `json:"end,omitempty"`   // 0: it lived on
	Lost  string  `json:"lost,omitempty"`  // why it died, if nobody wanted it
	Cells []Cell  `json:"cells"`
}

// Lane is a worker's attempts and the actors that lived in it.
type Lane struct {
	Node   int    `json:"node"` // number in Nodes
	Worker string `json:"worker"`
	Bars   []Bar  `json:"bars"`
	Cells  []Cell `json:"cells"`
	Actors []Bar  `json:"actors"`

	first int64
	cells cells
}

// Bar is an attempt or an actor that is at least two pixels wide.
type Bar struct {
	Start float64 `json:"s"`
	End   float64 `json:"e"`
	Group int     `json:"g"`
	ID    string  `json:"id"`
	Name  string  `json:"n,omitempty"` // of an actor
	State string  `json:"o,omitempty"` // failed or running; "" if it finished

	row int // in the table of tasks
}

// Longest is an attempt that took longer than others, with its function's name.
type Longest struct {
	Bar
	Node   int    `json:"node"` // number in Nodes
	Worker string `json:"worker"`
}

// Cell is some pixels in which attempts ran that are too narrow to be seen.
type Cell struct {
	X      int     `json:"x"`
	W      int     `json:"w"`
	Group  int     `json:"g"`
	Tasks  int     `json:"n,omitempty"` // that began here
	Failed int     `json:"f,omitempty"`
	Busy   float64 `json:"b"` // how many ran at a time
}
