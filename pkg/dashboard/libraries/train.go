package libraries

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
)

// TrainRuns is /api/train/v2/runs and /api/train/v2/runs/v1.
func TrainRuns(url string) request.Handler {
	return func(w http.ResponseWriter, r *request.Request) error {
		runs, _, err := r.SavedTrainRuns(r.Context(), url)
		switch {
		case err != nil:
			return err
		case runs == nil || r.At != 0 && len(runs.List("train_runs")) == 0: // before the first run Ray knows of no state either
			return reply.Text(w, http.StatusInternalServerError, noTrainState)
		}
		return reply.JSON(w, http.StatusOK, runs)
	}
}

// noTrainState is Ray's sentence (ray/dashboard/modules/train/train_head.py).
const noTrainState = "Train state data is not available. Please make sure Ray Train is running and that the Train state actor is enabled " +
	`by setting the RAY_TRAIN_ENABLE_STATE_TRACKING environment variable to "1".`
