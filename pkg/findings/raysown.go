package findings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// raysOwn holds the classes of actors that Ray's libraries run for themselves.
var raysOwn = []string{
	"ServeController", "ProxyActor", "_StatsActor", "AutoscalingRequester", "_AutoscalingCoordinatorActor",
	"SplitCoordinator", "_ActorPoolAutoscaler", "JobSupervisor",
}

// trainsOwn holds the classes of actors that the controller of a Train run makes for itself. Programs have classes of
// such names, too, so they are Ray's only in jobs with a controller.
var trainsOwn = []string{"DatasetManager", "PlacementGroupCleaner", "PreemptionWatcher", "SynchronizationActor"}

const trainController = "TrainController" // the class of the actor that controls a Train run

// tidying holds the calls by which Tune and Train's controller end what they have started, when its failure or its end
// is known already (tune_controller.py, worker_group.py).
var tidying = map[string]bool{
	"ImplicitFunc.stop": true, "ResourceTrainable.stop": true, "ImplicitFunc.get_auto_filled_metrics": true,
	"ResourceTrainable.get_auto_filled_metrics": true, "RayTrainWorker.shutdown": true,
}

// runsForRay reports whether a job's actors of a class are Ray's own, so that only Ray calls their methods. How they
// end is told by the findings about what they serve: a job or a deployment of Serve.
func (b *builder) runsForRay(class string, job rayid.Job) bool {
	return slices.Contains(raysOwn, class) || strings.HasPrefix(class, replicaClass) ||
		slices.Contains(trainsOwn, class) && b.trainJobs()[job]
}

// printsForRay reports whether Ray itself prints what a job's actors of a class print. It differs from runsForRay in
// two classes: the output of Serve's replicas is that of users, and the output of Train's controller is Ray's.
func (b *builder) printsForRay(class string, job rayid.Job) bool {
	return class == trainController || !strings.HasPrefix(class, replicaClass) && b.runsForRay(class, job)
}

// withoutRaysOwn returns the attempts that are no calls of Ray's own actors, the longest in their state first. It
// filters and sorts all in place.
func (b *builder) withoutRaysOwn(all []attempt) []attempt {
	all = slices.DeleteFunc(all, func(a attempt) bool {
		class, _, _ := strings.Cut(string(a.row.Name()), ".")
		return b.runsForRay(class, a.row.Job()) || tidying[string(a.row.GivenName())]
	})
	slices.SortStableFunc(all, func(x, y attempt) int { return cmp.Compare(x.since, y.since) })
	return all
}
