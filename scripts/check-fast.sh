#!/bin/bash
# check-fast.sh [BASE]   gofmt, vet and tests of the packages whose files differ from where this branch left BASE (main), committed or not.
set -euo pipefail
base=$(git merge-base HEAD "${1:-main}")
declare -A packages=() # module → packages
while read -r file; do
	dir=$(dirname "${file%%/testdata/*}")
	[ "$file" = "${file%%/testdata/*}" ] || dir=${file%%/testdata/*}
	compgen -G "$dir/*.go" >/dev/null || continue
	module=$dir
	until [ -f "$module/go.mod" ]; do module=$(dirname "$module"); done
	package=./${dir#"$module"}
	[ "$module" = . ] && package=./$dir
	case " ${packages[$module]-} " in *" $package "*) ;; *) packages[$module]="${packages[$module]-} $package" ;; esac
done < <({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
[ ${#packages[@]} -gt 0 ] || { echo "no package differs from $base"; exit; }
unformatted=$(gofmt -l $(git diff --name-only --diff-filter=d "$base" -- '*.go'; git ls-files --others --exclude-standard -- '*.go'))
[ -z "$unformatted" ] || { echo "gofmt these: $unformatted" >&2; exit 1; }
for module in "${!packages[@]}"; do
	read -ra list <<<"${packages[$module]}"
	(
		cd "$module"
		$GO vet "${list[@]}"
		if [ "$module" = . ]; then eval "$GO_TEST" "${list[*]}"; fi # those of the other modules need servers and clusters
	)
done
