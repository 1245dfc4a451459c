# Sourced by the scripts in ci/; never run by itself.
set -eu
cd "$(dirname "$0")/.."
export LANG="${LANG:-C.UTF-8}" # gnuplot warns of its own signs in other encodings

# What takes minutes under sanitizers: tuners with planted faults, plugins under
# contract but for ours, chains of many commands, and what is about sheer size.
slow='PlantedTuner|TakesAMillionRules|WouldTakeForEver|IntervalsHoldOne'
slow="$slow|ManyNodes|InAllOrders/[4A-Z]|TwentyThousand"
slow="$slow|TuneGivesTheSameTwice|HundredThousandRanks"
slow="$slow|PlansModel|PromoteNoNumber|InAnyMixture|InEveryOrder"
slow="$slow|AskTheStoreNothing|HostsStorm|MemoryRulesOfMeasured"
slow="$slow|HundredThousandRandom|Table/Null|GivesEachRecordedRound"
# Of which other tests run the same code, with fewer ranks or other options.
slow="$slow|TunePolicy|CliEscape|FindsTheRegimes|OfTuneSays"
slow="$slow|ShowAPolicyThatWasChanged|DropARule|LeavesTheFilesOfTheLastRun|EndsEachRunAfter"
slow="$slow|Gloo/.*(three|four)_ranks|PlanScaleTable|TellsTheSameInAllOrders/[2-9]|CliEnvironment"
slow="$slow|cli\.Contract\.PassesATunerThatLearns|AMillionNearFiles"
slow="$slow|InEveryCommandIfItsOutputIsLost|TuneFiles|TuneAgain\.(BeginsAnew|GoesOnW.*Iter)"
slow="$slow|PassesOurPlugin|HelpsOnEveryCommand|RegressionsComeOut|InAnyLocale|EntryLocale"
slow="$slow|OnlyTheCheckThatIsBroken|DeathOnCpus.*writer|IterationsOfAllModesAre"
slow="$slow|WithMicroBatches|ToTwelveDigits|NcclChooseRightOnTheRecorded|RecordedGainsAndIsNowhere"
slow="$slow|ForIterationsAndVerifiesIt|MeasuresNothingAgain|ThePolicyIsAsFastAs|FastPathsThatAre"
slow="$slow|LeavesNoChild|LearnSettlesThough|LearnRetests|LearnPlays|EffectBesideOthers"
slow="$slow|CliLaunchOfCpus.*Dies|CliSweep.StopsInOrder|Record.(MakesAF|SaysInEvery|IterationsAre)"
slow="$slow|ScansWhatIs|Tune.(MakesNo|MakesRules|LeavesNccl)|TuneSaysFirst|ArmsThatItCannotHave"
slow="$slow|SumsUpAHundred|LeavesNothingForASecond"
# These fork: the child may wait for ever for a lock of AddressSanitizer, and
# ThreadSanitizer ends it when it starts a thread.
slow="$slow|AForkedChildLearns|Service.AChild|Recorder.(AChild|WantsNothingAfter)"
slow="$slow|cli\.Contract\.([^P]|PassesAC|Plays)"

step() { printf '\n== %s\n' "$*"; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install LIST... - installs what these lists of packages name and is missing.
install() {
	missing=
	for package in $(cat "$@" | grep -v '^#'); do
		dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' ||
			missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	if ! command -v apt-get >/dev/null; then
		echo "$0: no apt-get here; please install what these are elsewhere:$missing" >&2
		exit 1
	fi
	step "installing$missing"
	as_root apt-get update -qq
	# shellcheck disable=SC2086 # a list
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# build NAME [OPTION...] - configures one preset and builds it, with options of
# cmake --build.
build() {
	name=$1
	shift
	step "build, preset $name"
	cmake --preset "$name" >/dev/null
	cmake --build --preset "$name" "$@"
}
