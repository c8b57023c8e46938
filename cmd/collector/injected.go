package main

import "slices"

// checkInjected reports settings of `collector inject` that no collector could use, by the collector's own checks: args
// are its flags, environ its variables. If complete is false, others come from ConfigMaps and Secrets when it runs, so
// none is missing.
func checkInjected(args, environ []string, complete bool) error {
	// What inject adds to each pod, and no file of this machine.
	args = append(slices.Clone(args), "--ray-cluster-name=a", "--storage-backend-config-path=/dev/null")
	o, _, err := read(args, environ)
	if err != nil || !complete {
		return err
	}
	return o.storage.CheckBucket()
}
