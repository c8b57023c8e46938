package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// Overview is the page with what people want to know of a session first.
type Overview struct {
	Frame
	Entry catalog.Entry
	// Began and Ended are when the session ran by the clocks of its nodes. Ended is at most the moment shown, and now
	// while the session runs.
	Began, Ended time.Time
	Report       *findings.Report
	Build        moment.Build
	Nodes        []*moment.Node
	OfJobs       []moment.Job
	Logs         int           // how many there are
	LogBytes     int64         // of the logs, as stored
	Kept         string        // how long the session is kept, such as "expires in 12 days"; "" if nothing limits it
	Prices       *fleet.Prices // nil: none are configured
	Runs         []Run         // the newest sessions of the same RayJob, RayService or cluster
}

// maxJobsListed is how many jobs of the report the page lists.
const maxJobsListed = 30

// OverviewJob is a job on the page.
type OverviewJob struct {
	findings.Job
	Took   time.Duration     // 0 if not known
	Reason *findings.Finding // the first of its findings; nil if it has none
}

func (Overview) template() string { return "overview.html" }

// Jobs are the jobs that the page lists. A job that had not ended took until the moment shown or the session's end. If
// the page shows a running session as it is now, it is not known how long such a job takes.
func (o Overview) Jobs() (list []OverviewJob) {
	for _, j := range o.Report.Jobs[:min(len(o.Report.Jobs), maxJobsListed)] {
		job := OverviewJob{Job: j}
		for _, atMoment := range o.OfJobs {
			if atMoment.ID == j.JobID && atMoment.SubmissionID == j.SubmissionID && atMoment.Start > 0 {
				end := atMoment.End
				if end == 0 && !o.Head.shownTo().IsZero() {
					end = o.Ended.UnixNano()
				}
				job.Took = time.Duration(max(0, end-atMoment.Start))
			}
		}
		if len(j.Findings) > 0 {
			job.Reason = o.Report.Finding(j.Findings[0])
		}
		list = append(list, job)
	}
	return list
}

// JobsLeftOut is how many jobs are not listed.
func (o Overview) JobsLeftOut() int { return max(0, len(o.Report.Jobs)-maxJobsListed) }

// Link is the address of the job's findings.
func (j OverviewJob) Link() string { return "findings?" + url.Values{"job_id": {j.Name()}}.Encode() }

// Logs is the address of the page with the logs about the job; "" for a driver without a submission, which may have no
// logs because people started it by hand.
func (j OverviewJob) Logs() string {
	if j.SubmissionID == "" {
		return ""
	}
	return "logs?" + url.Values{"submission_id": {j.SubmissionID}}.Encode()
}

// BeforeFailure is the address of the dashboard as it was two minutes before a finding, or half way between the
// session's start and the finding if that is later; "" if one of these times is not known.
func (o Overview) BeforeFailure(f *findings.Finding) string {
	first := firstHappened(f)
	ran := first.Sub(o.Entry.Start)
	if o.Entry.Start.IsZero() || ran < time.Second {
		return ""
	}
	at := first.Add(-min(2*time.Minute, ran/2))
	return o.Base + o.Entry.Ref.Path() + "at/" + strconv.FormatInt(at.UnixMilli(), 10) + "/"
}

// Ray says which version of Ray the session had, and of Python if it is known.
func (o Overview) Ray() string {
	text := cmp.Or(o.Build.Version, o.Entry.RayVersion, "not known")
	if o.Build.Python != "" {
		text += ", Python " + o.Build.Python
	}
	return text
}

// LostNodes is how many nodes died unexpectedly.
func (o Overview) LostNodes() (n int) {
	for _, node := range o.Nodes {
		n += boolToInt(node.Lost())
	}
	return n
}

// Resources says what all nodes had together, such as "48 CPU, 4 GPU, 190 GiB memory".
func (o Overview) Resources() string {
	total := map[string]float64{}
	for _, node := range o.Nodes {
		for _, name := range []string{"CPU", "GPU", "TPU", "memory"} {
			total[name] += node.Amount(name)
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(total)) {
		amount, unit := total[name], name
		if name == "memory" {
			amount, unit = amount/(1<<30), "GiB memory"
		}
		if amount > 0 {
			parts = append(parts, fmt.Sprintf("%.4g %s", amount, unit))
		}
	}
	return strings.Join(parts, ", ")
}

// Cost says what the nodes cost until the session's end, the moment shown or now, such as "12.30 USD"; "" without
// prices.
func (o Overview) Cost() string {
	if o.Prices == nil {
		return ""
	}
	sum := 0.0
	for _, n := range o.Nodes {
		began, ended := max(n.Start, o.Began.UnixNano()), o.Ended.UnixNano()
		if n.State == moment.Dead && n.End > 0 {
			ended = min(ended, n.End)
		}
		hours := max(0, time.Duration(ended-began).Hours())
		sum += o.Prices.Of(n.Labels(), packs.AmountsOf(hours, n.Amount))
	}
	return moneyText(sum) + " " + o.Prices.Currency
}

// Owner is what created the cluster, such as "RayJob nightly"; "" if it is a cluster of its own.
func (o Overview) Owner() string {
	if o.Entry.OwnerName == "" || o.Entry.OwnerName == o.Entry.Ref.Cluster {
		return ""
	}
	return o.Entry.OwnerKind + " " + o.Entry.OwnerName
}
