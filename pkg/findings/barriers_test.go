package findings

import "testing"

// TestBarrier: readers and ranks that did not come are told, unless the others went on.
func TestBarrier(t *testing.T) {
	const (
		split = "\x1b[36m(SplitCoordinator pid=450)\x1b[0m StreamSplitDataIterator(epoch=2, split=0) blocked waiting on other clients for more than 30s. All clients must read\n"
		ranks = "\x1b[36m(SynchronizationActor pid=7, ip=10.0.0.2)\x1b[0m The workers have been waiting for 60.11 s for the following ranks to join the `ray.train.report` call: [1, 3].\n" +
			"\x1b[36m(SynchronizationActor pid=7, ip=10.0.0.2)\x1b[0m Also ensure that workers are not hanging on other operations\n"
		toldSplit = "StreamSplitDataIterator(epoch=2, split=0) blocked waiting on other clients for more than 30s"
		toldRanks = "The workers have been waiting for 60.11 s for the following ranks to join the `ray.train.report` call: [1, 3]"
	)
	for log, want := range map[string]string{
		split: toldSplit, "loading\n" + split + "KeyError: 1\n": toldSplit, ranks: toldRanks, split + ranks: toldRanks,
		split + "\x1b[36m(SplitCoordinator pid=450)\x1b[0m Starting execution of Dataset a\n": "",
		split + "\x1b[36m(SplitCoordinator pid=451)\x1b[0m Starting execution of Dataset b\n": toldSplit,
		ranks + "\x1b[36m(RayTrainWorker pid=9)\x1b[0m Reporting training result 2: a\n":      "",
		"\x1b[36m(Learner pid=9)\x1b[0m blocked waiting on other clients\n":                   "",
	} {
		if _, said := waitsAtBarrier(log); said != want {
			t.Errorf("%q: %q, want %q", log, said, want)
		}
	}
}
