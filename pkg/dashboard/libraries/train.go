package libraries

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/request"
)

// TrainRuns is /api/train/v2/runs and /api/train/v2/runs/v1.
func TrainRuns(url string) request.Handler {
	return request.SavedOrText(url, http.StatusInternalServerError, noTrainState)
}

// noTrainState is Ray's sentence (ray/dashboard/modules/train/train_head.py).
const noTrainState = "Train state data is not available. Please make sure Ray Train is running and that the Train state actor is enabled " +
	`by setting the RAY_TRAIN_ENABLE_STATE_TRACKING environment variable to "1".`
