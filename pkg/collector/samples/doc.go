// Package samples is the stored form of a node's metrics: what its Prometheus endpoints answered, read every few seconds.
//
// An hour of one node is a stream of lines, each a JSON object of one of these kinds:
//
//	{"start":1,"targets":[{"instance":"10.0.0.7:8080","job":"ray"}]}   a new table begins: all series before it are forgotten
//	{"metrics":[["ray_tasks","gauge","Current number of tasks …"]]}    name, type and help of metrics
//	{"from":120,"target":0,"series":[["ray_tasks","State","RUNNING"]]} series 120, 121, …: name, then each label's name and value
//	{"t":1764000000123,"target":0,"i":[0,0,3],"v":[17,0.5,"NaN"],"gone":[4]}
//
// The last kind is one read of one target at t (Unix milliseconds). It has only what changed since the target's last read: v has the new
// values, i the series they belong to. Each number in i says how many series lie between its series and the one before (0: none). A series
// that is not mentioned still has its last value; those in gone (encoded like i) are no longer exposed. A read that failed is
// {"t":…,"target":0,"failed":1}: all series of the target are gone. Numbers have the fewest digits that read back equal; those that JSON
// does not have are the strings "NaN", "+Inf" and "-Inf".
//
// A line may be stored twice. A reader skips a series line that it has (by from), and a read that is not newer than the target's last. If a
// series line leaves a gap, or bytes are missing, the reader cannot trust what follows until the next start.
package samples
