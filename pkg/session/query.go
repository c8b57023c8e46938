package session

// Filter keeps the rows whose column Key is (or, with Not, is not) Value, regardless of case. Key is lower-case.
type Filter struct {
	Key   string
	Not   bool
	Value string
	// Source says that Ray's own store would apply the filter before it counts what there is, where it can (tasks only).
	Source bool
}

// Query asks for rows of a table.
type Query struct {
	Filters []Filter
	Limit   int
	// Detail asks for all columns.
	Detail bool
	// ExcludeDriver leaves out the rows of drivers (tasks only).
	ExcludeDriver bool
	// At is the moment to show, Unix nanoseconds; 0 is the session's end.
	At int64
}
