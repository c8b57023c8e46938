package backends

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/test/servers"
)

// The benchmarks measure each driver with its server on the same machine:
//
//	go test ./backends -run none -bench . -benchtime 1x
const (
	chunkSize = 8 << 20
	atOnce    = 4
	// readChunks make a session's events of 512 MiB, logChunks a log of 2 GiB.
	readChunks = 64
	logChunks  = 256
)

// stores are the drivers with their servers.
var stores = map[string]func(b *testing.B) blobtest.Contract{
	"local": func(*testing.B) blobtest.Contract { return localContract() },
	"s3,versitygw": func(b *testing.B) blobtest.Contract {
		server := start(b, servers.VersityGW)
		return openS3(server).contract(server.URL, stall)
	},
	"s3,minio": func(b *testing.B) blobtest.Contract {
		server := start(b, servers.MinIO)
		return openS3(server).contract(server.URL, stall)
	},
	"gcs,fake-gcs-server": func(b *testing.B) blobtest.Contract {
		return gcsContract(start(b, servers.FakeGCS).URL, stall)
	},
	"azureblob,azurite-blob": func(b *testing.B) blobtest.Contract {
		return opener(openAzure).contract(start(b, servers.Azurite).URL, stall)
	},
	"aliyunoss,oss": func(b *testing.B) blobtest.Contract {
		return opener(openOSS).contract(startOSS(b).URL, stall)
	},
}

// BenchmarkWrite creates the chunks of a log of 2 GiB, as many at a time as a collector does, and reports the most
// memory that the driver's process used for it.
func BenchmarkWrite(b *testing.B) {
	each(b, func(b *testing.B, s blob.Store) {
		b.SetBytes(logChunks * chunkSize)
		peak := watchMemory()
		b.ResetTimer()
		for n := range b.N {
			write(b, s, n, logChunks)
		}
		b.ReportMetric(float64(peak())/(1<<20), "peak-MiB")
	})
}

// BenchmarkRead reads chunks to their ends, as the replay of a session does.
func BenchmarkRead(b *testing.B) {
	each(b, func(b *testing.B, s blob.Store) {
		write(b, s, 0, readChunks)
		b.SetBytes(readChunks * chunkSize)
		b.ResetTimer()
		for range b.N {
			inParallel(readChunks, func(i int) {
				body, err := s.Get(b.Context(), key(0, i), 0, -1)
				if err != nil {
					b.Error(err)
					return
				}
				defer body.Close()
				if n, err := io.Copy(io.Discard, body); err != nil || n != chunkSize {
					b.Errorf("%d bytes, %v", n, err)
				}
			})
		}
	})
}

// BenchmarkCompact joins the chunks of a log of 2 GiB to one object, and reports the most memory that the driver's
// process used for it.
func BenchmarkCompact(b *testing.B) {
	each(b, func(b *testing.B, s blob.Store) {
		write(b, s, 0, logChunks)
		var sources []blob.Object
		for o, err := range s.List(b.Context(), "bench/", blob.ListOptions{}) {
			must.OK(b, err)
			sources = append(sources, o)
		}
		b.SetBytes(logChunks * chunkSize)
		peak := watchMemory()
		b.ResetTimer()
		for range b.N {
			must.OK(b, blobtest.Concatenate(b.Context(), s, "whole", sources))
		}
		b.ReportMetric(float64(peak())/(1<<20), "peak-MiB")
	})
}

func each(b *testing.B, run func(b *testing.B, s blob.Store)) {
	for name, contract := range stores {
		b.Run(name, func(b *testing.B) {
			_, server, found := strings.Cut(name, ",")
			if !found {
				server = name
			}
			want(b, server)
			run(b, contract(b).Open(b))
		})
	}
}

func key(n, i int) string { return fmt.Sprintf("bench/%d/log.@%020d", n, i*chunkSize) }

func write(b *testing.B, s blob.Store, n, count int) {
	content := strings.Repeat("a line of a log, which is what most objects are\n", chunkSize/48+1)[:chunkSize]
	inParallel(count, func(i int) {
		if err := s.Create(b.Context(), key(n, i), strings.NewReader(content)); err != nil {
			b.Error(err)
		}
	})
}

func inParallel(count int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	wg.Wait()
}

// watchMemory starts to watch the heap; the function it returns ends that and tells how many bytes it grew at most.
func watchMemory() (peak func() uint64) {
	runtime.GC()
	percent := debug.SetGCPercent(20)
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	start, most := now.HeapAlloc, now.HeapAlloc
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		debug.SetGCPercent(percent)
		return most - start
	}
}
