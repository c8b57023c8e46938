// Package sessiongen writes stored sessions of any size for benchmarks and load tests, without a cluster. Forms, sizes
// and shares of the events are those that Ray 2.60 sends (5.25 events and about 4.2 KB a task). The same options give
// the same bytes.
//
// Of the tasks, 1 in 10 is an actor's, 1 in 20 needs a second attempt, and 1 in 50 fails in all attempts. There is one
// actor for every 500 tasks.
package sessiongen

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Options say how large the session is. Zero values mean what the comments say.
type Options struct {
	Tasks   int
	Nodes   int // 8
	Jobs    int // 4
	Hours   int // over which the tasks are spread; 4
	Seed    uint64
	Version layout.Version
	// ChunkEvents cuts each object into chunks of that many events; 0: one object an hour.
	ChunkEvents int
	Compression layout.Compression // of each chunk
	// OutOfMemory lets Ray's memory monitor kill one attempt in a thousand.
	OutOfMemory bool
	// Ended stores the session's end as well.
	Ended bool
}

// Stats tell what was written.
type Stats struct {
	Session layout.Session
	Events  int
	Objects int
	Bytes   int64
}

// Namespace and Cluster are those of all generated sessions.
const (
	Namespace = "default"
	Cluster   = "bench"
)

const (
	workersPerNode = 16
	tasksPerActor  = 500
	functions      = 40
)

// Start is when every generated session begins.
var Start = time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)

type actor struct {
	id   rayid.Actor
	job  int
	node int
	slot int
}

type generator struct {
	o       Options
	out     *writer
	random  *rand.Rand
	session string
	nodes   []rayid.Node
	workers [][]rayid.Worker
	jobs    []rayid.Job
	actors  []actor
	span    int // microseconds
	event   []byte
}

// Write writes a session below dir, an object being the file dir/{key}.
func Write(dir string, o Options) (Stats, error) {
	o.Nodes, o.Jobs, o.Hours = orDefault(o.Nodes, 8), orDefault(o.Jobs, 4), orDefault(o.Hours, 4)
	g := &generator{o: o, random: rand.New(rand.NewPCG(o.Seed, 0)), span: o.Hours * 3_600_000_000}
	g.session = fmt.Sprintf("session_%s_%06d_%d", Start.Format("2006-01-02_15-04-05"), o.Tasks, o.Seed)
	s := layout.Session{Version: o.Version, Namespace: Namespace, Cluster: Cluster, Name: g.session}
	if o.Version == layout.V17 {
		s.OwnerKind = "raycluster"
	}
	g.out = &writer{dir: dir, session: s, chunkEvents: o.ChunkEvents, compression: o.Compression,
		streams: map[string]*stream{}}
	var err error
	if g.out.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest)); err != nil {
		return Stats{}, err
	}
	if err := g.out.mark(); err != nil {
		return Stats{}, err
	}
	g.makeNodes()
	g.makeJobs()
	g.makeActors()
	for i := range o.Tasks {
		g.makeTask(i)
	}
	if o.Ended {
		g.out.end(layout.EndMetadata{Start: Start, End: Start.Add(time.Duration(o.Hours) * time.Hour), Nodes: o.Nodes})
	}
	return g.out.finish()
}

func orDefault(n, byDefault int) int {
	if n > 0 {
		return n
	}
	return byDefault
}

func (g *generator) makeNodes() {
	for i := range g.o.Nodes {
		var node rayid.Node
		g.fill(node[:])
		g.nodes = append(g.nodes, node)
		workers := make([]rayid.Worker, workersPerNode)
		for k := range workers {
			g.fill(workers[k][:])
		}
		g.workers = append(g.workers, workers)
		ip := fmt.Sprintf("10.0.0.%d", i+1)
		g.add(nil, 0, "NODE_DEFINITION_EVENT", "GCS", 0,
			`"nodeDefinitionEvent":{"nodeId":"%s","nodeIpAddress":"%s","labels":{"ray.io/node-id":"%s"},"startTimestamp":"%s","hostname":"h%d","nodeName":"%s","instanceId":"","instanceTypeName":""}`,
			b64(node[:]), ip, node, stamp(0), i, ip)
		head := ""
		if i == 0 {
			head = `,"node:__internal_head__":1.0`
		}
		g.add(nil, 0, "NODE_LIFECYCLE_EVENT", "GCS", 1,
			`"nodeLifecycleEvent":{"nodeId":"%s","stateTransitions":[{"timestamp":"%s","resources":{"CPU":16.0,"memory":64000000000.0,"object_store_memory":19000000000.0,"node:%s":1.0%s},"state":"ALIVE","aliveSubState":"UNSPECIFIED"}]}`,
			b64(node[:]), stamp(1), ip, head)
	}
}

func (g *generator) makeJobs() {
	for k := range g.o.Jobs {
		job := rayid.Job{byte(k + 1), byte((k + 1) >> 8)}
		g.jobs = append(g.jobs, job)
		g.add(&job, 0, "DRIVER_JOB_DEFINITION_EVENT", "GCS", 2,
			`"driverJobDefinitionEvent":{"jobId":"%s","driverPid":"%d","driverNodeId":"%s","entrypoint":"python job%d.py","config":{"serializedRuntimeEnv":"{}","metadata":{}}}`,
			b64(job[:]), 1000+k, b64(g.nodes[0][:]), k)
		g.add(&job, 0, "DRIVER_JOB_LIFECYCLE_EVENT", "GCS", 3,
			`"driverJobLifecycleEvent":{"jobId":"%s","stateTransitions":[{"state":"CREATED","timestamp":"%s"}]}`,
			b64(job[:]), stamp(3))
	}
}

func (g *generator) makeActors() {
	for k := range max(1, g.o.Tasks/tasksPerActor) {
		a := actor{job: k % g.o.Jobs, node: g.random.IntN(g.o.Nodes), slot: g.random.IntN(workersPerNode)}
		job := g.jobs[a.job]
		g.fill(a.id[:rayid.ActorSize-rayid.JobSize])
		copy(a.id[rayid.ActorSize-rayid.JobSize:], job[:])
		g.actors = append(g.actors, a)
		at := 1_000_000 + g.random.IntN(g.span/4)
		name, class := "", k%7
		if k%3 == 0 {
			name = fmt.Sprintf("actor%d", k)
		}
		g.add(&job, 0, "ACTOR_DEFINITION_EVENT", "GCS", at,
			`"actorDefinitionEvent":{"actorId":"%s","jobId":"%s","name":"%s","rayNamespace":"bench","serializedRuntimeEnv":"{}","className":"Worker%d","requiredResources":{"CPU":0.5},"isDetached":false,"placementGroupId":"","labelSelector":{},"callSite":"","parentId":"","refIds":{}}`,
			b64(a.id[:]), b64(job[:]), name, class)
		g.add(&job, 0, "ACTOR_LIFECYCLE_EVENT", "GCS", at+1000,
			`"actorLifecycleEvent":{"actorId":"%s","stateTransitions":[`+
				`{"timestamp":"%s","state":"DEPENDENCIES_UNREADY","nodeId":"","workerId":"","reprName":"","pid":0,"port":0,"restartReason":"ACTOR_FAILURE"},`+
				`{"timestamp":"%s","state":"ALIVE","nodeId":"%s","workerId":"%s","reprName":"Worker%d()","pid":%d,"port":%d,"restartReason":"ACTOR_FAILURE"}]}`,
			b64(a.id[:]), stamp(at+1), stamp(at+900), b64(g.nodes[a.node][:]), b64(g.workers[a.node][a.slot][:]), class,
			2000+a.slot, 10000+a.slot)
	}
}

// add writes one event of a job, or of the session where job is nil; at is microseconds after the session's start.
func (g *generator) add(job *rayid.Job, node int, kind, source string, at int, format string, fields ...any) {
	var id [28]byte
	g.fill(id[:])
	e := fmt.Appendf(g.event[:0], `{"eventId":"%s","sourceType":"%s","eventType":"%s","timestamp":"%s","severity":"INFO","sessionName":"%s",`,
		b64(id[:]), source, kind, stamp(at), g.session)
	e = fmt.Appendf(e, format, fields...)
	e = fmt.Appendf(e, ",\"nodeId\":\"%s\",\"message\":\"\"}\n", b64(g.nodes[node][:]))
	g.event = e
	g.out.add(job, g.nodes[node], Start.Add(time.Duration(at)*time.Microsecond), e)
}

func (g *generator) fill(b []byte) {
	for i := range b {
		b[i] = byte(g.random.Uint32())
	}
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func stamp(us int) string {
	return Start.Add(time.Duration(us)*time.Microsecond).Format("2006-01-02T15:04:05.000000") + "000Z"
}
