# make setup | demo | test | test-wheel | test-oldest | test-spark-3.5 | test-services | test-s3a | lint | docs | bench | arena | micro.  Each makes .venv where it is missing.
VENV    := .venv
PY      := $(VENV)/bin/python
CORE    := $(VENV)/.core
WITH_SPARK := $(VENV)/.spark
STAMP   := $(VENV)/.installed
CLASSES := $(VENV)/spark-classes.jsa
VERSITYGW := v1.8.0
SERVED  := $(VENV)/services
S3      := $(SERVED)/versitygw-$(VERSITYGW)
KAFKA_VERSION := 3.9.1
KAFKA   := $(SERVED)/kafka-$(KAFKA_VERSION)
SPARK_4_0 := 4.0.0
CONNECTOR := $(SERVED)/spark-kafka-$(SPARK_4_0)
DELTA   := $(SERVED)/delta-$(SPARK_4_0)
ICEBERG_VERSION := 1.10.1
ICEBERG := $(SERVED)/iceberg-$(ICEBERG_VERSION)
HADOOP_AWS := $(SERVED)/hadoop-aws
DEMO    ?=
TESTS   ?= tests bench/micro
SERVICES ?= tests/services --ignore=tests/services/test_s3a.py
RIVALS  ?= $(or $(CQELS_OPT_RIVALS),.rivals)
RIVAL   ?= flink esper pathway differential cqels csparql yasper kolibrie
FLINK   := 2.3.0
ESPER   := 8.9.0
PATHWAY := 0.33.0
DIFFERENTIAL := bench/arena/engines/differential
CITYBENCH ?= https://github.com/CityBench/Benchmark.git
RSP4J   ?= https://github.com/streamreasoning/rsp4j.git
KOLIBRIE ?= https://github.com/StreamIntelligenceLab/Kolibrie.git
IN_WHEEL := tests/plans/test_plan.py tests/stats/test_frequencies.py tests/relational tests/trace tests/plugins tests/query/test_dialects.py \
  tests/runtime/test_driver.py tests/bench/test_generators.py tests/test_documentation.py tests/planner/test_explain.py tests/spark/test_standard_output.py
EXAMPLES := tests/installed/test_examples.py
INSTALLED ?= $(IN_WHEEL) $(EXAMPLES) tests/installed/test_package.py
OLDEST  := 4.0.0
SPARK_3_5 := 3.5.9
JOINS   := $(addprefix tests/spark/test_,adaptive_join.py declared_joins.py hadoop_state.py join_orders.py kept_query.py replanning.py static_counts.py)
ARENA   ?=
BENCH   ?= evaluation --quick --html evaluation.html --json evaluation.json

.DEFAULT_GOAL := help
.NOTPARALLEL:  # targets install into one environment
.PHONY: help setup java demo test test-all test-wheel test-oldest test-spark-3.5 servers test-services test-s3a mosquitto lint docs bench arena arena-rivals test-rivals micro clean

help:
	@echo "make setup    .venv with everything, and a check that Java >= 17 is there"
	@echo "make demo     a query over real departures: adaptive next to two plans that never change  (DEMO=--engine=spark: on Spark)"
	@echo "make test     a sample of the tests, some of every folder           (TESTS=tests/plans: a part)"
	@echo "make test-all every test that needs no service other than Spark"
	@echo "make test-wheel      tests of the wheel in an empty environment, with the newest PySpark   (PYSPARK=4.1.0: that one; EXAMPLES=: without examples)"
	@echo "make test-oldest     the same with PySpark $(OLDEST), the oldest that everything works with"
	@echo "make test-spark-3.5  the tests of joins of DataFrames in the wheel, with PySpark $(SPARK_3_5)"
	@echo "make test-services   tests against servers of S3, Kafka and MQTT on this machine, with Delta and Iceberg, and in a browser   (needs Go)"
	@echo "make test-s3a the state of a join on that S3 server by Hadoop's connector   (690 MB of downloads)"
	@echo "make lint     ruff, mypy --strict and codespell"
	@echo "make docs     the documentation as a site that needs no network, in site/"
	@echo "make bench    the report's evaluation, small, as evaluation.html      (BENCH='--list': all scenarios; BENCH=evaluation: at full size)"
	@echo "make arena    the engine next to rivals on public workloads, about five minutes   (ARENA=--full: all of it)"
	@echo "make arena-rivals    installs the arena's rivals: Flink, Esper, Pathway, CQELS and others   (RIVAL=esper: that one; RIVALS=/folder: not into .rivals)"
	@echo "make test-rivals  installs them, and compares their answers with the engine's   (680 MB of downloads)"
	@echo "make micro    how long planning and statistics take, with pytest-benchmark  (alone on the machine)"
	@echo "make clean    removes .venv and caches"

setup: $(STAMP) java

INSTALL = $(PY) -m pip install -qq --disable-pip-version-check --no-compile

# The first Python that is new enough makes the environment; packages are installed again when pyproject.toml changes. The demo needs
# neither Spark nor the tools, which take most of the time. pip compiles all modules on one core: set-up compiles them on all.
$(CORE): pyproject.toml
	@set -e; \
	if ! $(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  found=; \
	  for p in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	    if "$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$p"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "cqels-opt needs Python 3.11 or newer: install it, or name one: make setup PYTHON=/path/to/python3.11" >&2; exit 2; \
	  fi; \
	  "$$found" -m venv --clear $(VENV) || { \
	    echo "cannot make $(VENV): on Debian install python3-venv (apt-get install python3-venv)" >&2; exit 2; }; \
	fi; \
	echo "installing what cqels-opt needs into $(VENV)"; \
	$(INSTALL) -e '.[demo]'; \
	touch $@

$(WITH_SPARK): $(CORE)
	@echo "installing PySpark into $(VENV)"
	@$(INSTALL) -e '.[demo,spark]'
	@touch $@

$(STAMP): $(CORE)
	@echo "installing PySpark and the tools into $(VENV)"
	@$(INSTALL) -e '.[dev]'
	@$(PY) -m compileall -qq -j 0 $(VENV)/lib || :  # some packages have files for other versions of Python
	@touch $@ $(WITH_SPARK)

# Spark needs Java: looked for each time, and installed where the machine is Debian and the user is root.
java: $(CORE)
	@$(PY) -m cqels_opt.cli.java --install

demo: $(if $(findstring spark,$(DEMO)),$(WITH_SPARK) java,$(CORE))
	@$(VENV)/bin/cqels-opt demo $(DEMO)

# Half of what a JVM of Spark does in a test is to read classes and to verify them: tests take them from an archive.
$(CLASSES): $(STAMP) | java
	@$(PY) tests/spark/class_archive.py

# Bytecode is kept, for the processes that tests start and for the next run, whatever the shell asks for. Four processes for two cores:
# two of them have the tests that start JVMs, and wait for these much of the time (tests/conftest.py).
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest -n 4 --dist loadgroup --ignore=tests/services --ignore=tests/installed --ignore=tests/rivals

test: setup $(CLASSES)
	@$(PYTEST) $(TESTS)

# Every seed of the property tests, clusters, faults and benchmarks: what CI runs.
test-all: setup $(CLASSES)
	@CQELS_OPT_FAULTS=32 CQELS_OPT_FAULTS_ON_SPARK=4 CQELS_OPT_FUZZ=120 $(PYTEST) --all $(TESTS)

# What pip makes of the package, outside of this folder: tests/installed/environment.py.
test-wheel: setup
	@$(PY) tests/installed/environment.py $(if $(PYSPARK),--pyspark $(PYSPARK)) $(INSTALLED)

test-oldest: PYSPARK = $(OLDEST)
test-oldest: test-wheel

test-spark-3.5: PYSPARK = $(SPARK_3_5)
test-spark-3.5: INSTALLED = $(JOINS)
test-spark-3.5: test-wheel

# An S3-compatible server, built once: https://github.com/versity/versitygw (two minutes of one core).
$(S3):
	@command -v go >/dev/null || { \
	  echo "make test-services builds its S3 server with Go, which is missing: install Go 1.25 or newer (https://go.dev/dl)" >&2; exit 2; }
	@echo "building versitygw $(VERSITYGW) into $(dir $@)"
	@GOBIN="$(abspath $(dir $@))" go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW) || { \
	  echo "versitygw $(VERSITYGW) could not be built: is the Go module proxy reachable?" >&2; exit 2; }
	@mv "$(dir $@)versitygw" "$@"

# A broker of Kafka, and Spark's connector with the PySpark that it is of: the jars as Ivy, which Spark brings, finds them in Maven's repository.
IVY = java -jar $$(ls $(VENV)/lib/python3*/site-packages/pyspark/jars/ivy-*.jar) -warn -cache "$(abspath $(SERVED)/ivy)" -confs default

$(KAFKA):
	@echo "fetching Kafka $(KAFKA_VERSION) into $@"
	@rm -rf "$@.half"
	@$(IVY) -dependency org.apache.kafka kafka_2.13 $(KAFKA_VERSION) -retrieve "$(abspath $@).half/[artifact]-[revision].[ext]" >$(SERVED)/kafka.log 2>&1 || { \
	  tail -n 5 $(SERVED)/kafka.log >&2; echo "Kafka $(KAFKA_VERSION) could not be fetched: is Maven's repository reachable?" >&2; exit 2; }
	@mv "$@.half" "$@"

$(CONNECTOR):
	@echo "fetching PySpark $(SPARK_4_0) and its Kafka connector into $@"
	@rm -rf "$@.half"
	@$(IVY) -dependency org.apache.spark spark-sql-kafka-0-10_2.13 $(SPARK_4_0) \
	  -retrieve "$(abspath $@).half/jars/[artifact]-[revision].[ext]" >$(SERVED)/connector.log 2>&1 || { \
	  tail -n 5 $(SERVED)/connector.log >&2; echo "Spark's Kafka connector could not be fetched: is Maven's repository reachable?" >&2; exit 2; }
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --target "$@.half/python" pyspark==$(SPARK_4_0)
	@mv "$@.half" "$@"

# Delta's jars have the version of the Spark that they are of.
$(DELTA):
	@echo "fetching Delta $(SPARK_4_0) into $@"
	@rm -rf "$@.half"
	@$(IVY) -dependency io.delta delta-spark_2.13 $(SPARK_4_0) -retrieve "$(abspath $@).half/[artifact]-[revision].[ext]" >$(SERVED)/delta.log 2>&1 || { \
	  tail -n 5 $(SERVED)/delta.log >&2; echo "Delta $(SPARK_4_0) could not be fetched: is Maven's repository reachable?" >&2; exit 2; }
	@mv "$@.half" "$@"

$(ICEBERG):
	@echo "fetching Iceberg $(ICEBERG_VERSION) into $@"
	@rm -rf "$@.half"
	@$(IVY) -dependency org.apache.iceberg iceberg-spark-runtime-4.0_2.13 $(ICEBERG_VERSION) \
	  -retrieve "$(abspath $@).half/[artifact]-[revision].[ext]" >$(SERVED)/iceberg.log 2>&1 || { \
	  tail -n 5 $(SERVED)/iceberg.log >&2; echo "Iceberg $(ICEBERG_VERSION) could not be fetched: is Maven's repository reachable?" >&2; exit 2; }
	@mv "$@.half" "$@"

# An MQTT broker: Debian's.
mosquitto:
	@PATH="$$PATH:/usr/sbin" command -v mosquitto >/dev/null || { \
	  echo "installing mosquitto, an MQTT broker"; \
	  apt-get install -qq -y mosquitto >/dev/null || { \
	    echo "make test-services needs mosquitto, an MQTT broker: install it (apt-get update && apt-get install mosquitto)" >&2; exit 2; }; }

servers: setup $(S3) $(KAFKA) $(CONNECTOR) $(DELTA) $(ICEBERG) mosquitto

# Each file in one of two processes, which have servers of their own.
test-services: servers
	@$(PY) -m pip install -qq --disable-pip-version-check -e '.[services]'
	@$(PY) tests/services/browser.py
	@CQELS_OPT_S3_SERVER="$(abspath $(S3))" CQELS_OPT_KAFKA_JARS="$(abspath $(KAFKA))" \
	  CQELS_OPT_PYSPARK_4_0="$(abspath $(CONNECTOR))/python" CQELS_OPT_KAFKA_CONNECTOR="$(abspath $(CONNECTOR))/jars" \
	  CQELS_OPT_DELTA_JARS="$(abspath $(DELTA))" CQELS_OPT_ICEBERG_JARS="$(abspath $(ICEBERG))" \
	  $(PY) -m pytest -n 2 --dist loadfile $(SERVICES)

# Hadoop's connector to S3, of the version of PySpark's Hadoop: 690 MB, so CI does not run its test.
$(HADOOP_AWS): $(STAMP)
	@version=$$(ls $(VENV)/lib/python3*/site-packages/pyspark/jars | sed -n 's/hadoop-client-api-\(.*\)\.jar/\1/p'); \
	echo "fetching hadoop-aws $$version into $@"; \
	rm -rf "$@.half"; \
	$(IVY) -dependency org.apache.hadoop hadoop-aws $$version -retrieve "$(abspath $@).half/[artifact]-[revision].[ext]" >$(SERVED)/hadoop-aws.log 2>&1 || { \
	  echo "hadoop-aws $$version could not be fetched: is Maven's repository reachable?" >&2; exit 2; }; \
	rm -rf "$@"; mv "$@.half" "$@"

test-s3a: setup $(S3) $(HADOOP_AWS)
	@$(PY) -m pip install -qq --disable-pip-version-check -e '.[services]'
	@CQELS_OPT_S3_SERVER="$(abspath $(S3))" CQELS_OPT_HADOOP_AWS="$(abspath $(HADOOP_AWS))" $(PY) -m pytest tests/services/test_s3a.py

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/codespell README.md CHANGELOG.md docs cqels_opt plans stats bench examples

# Warnings are errors; the examples in the pages are tests.
docs: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict -q

bench: setup
	@$(VENV)/bin/cqels-opt bench $(BENCH)

arena: $(STAMP)
	@CQELS_OPT_RIVALS="$(abspath $(RIVALS))" $(VENV)/bin/cqels-opt bench arena --page arena.md --json arena.json $(ARENA)

# Engines that the arena runs in processes of their own, one folder each. The file version, written last, says that it is whole.
arena-rivals: $(foreach rival,$(RIVAL),$(RIVALS)/$(rival)/version)

# 680 MB of downloads and ten minutes or more of building, so CI does not run it.
test-rivals: arena-rivals
	@CQELS_OPT_RIVALS="$(abspath $(RIVALS))" $(PY) -m pytest --all tests/rivals

$(RIVALS)/flink/version: Makefile | $(STAMP)
	@echo "installing Apache Flink $(FLINK) into $(@D)"
	@rm -rf $(@D)
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --target $(@D) apache-flink-libraries==$(FLINK)
	@echo "Apache Flink $(FLINK)" >$@

$(RIVALS)/esper/version: Makefile | $(STAMP)
	@echo "installing Esper $(ESPER) into $(@D)"
	@rm -rf $(@D)
	@mkdir -p $(SERVED)
	@for part in compiler runtime; do \
	  $(IVY) -dependency com.espertech esper-$$part $(ESPER) -retrieve "$(abspath $(@D))/jars/[artifact]-[revision].[ext]" >$(SERVED)/esper.log 2>&1 || { \
	    tail -n 5 $(SERVED)/esper.log >&2; echo "Esper $(ESPER) could not be fetched: is Maven's repository reachable?" >&2; exit 2; }; \
	done
	@echo "Esper $(ESPER)" >$@

$(RIVALS)/pathway/version: Makefile | $(STAMP)
	@echo "installing Pathway $(PATHWAY) into $(@D)"
	@rm -rf $(@D)
	@$(PY) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check pathway==$(PATHWAY)
	@echo "Pathway $(PATHWAY)" >$@

# The queries are compiled in.
$(RIVALS)/differential/version: $(DIFFERENTIAL)/main.rs $(DIFFERENTIAL)/Cargo.lock $(wildcard bench/arena/workloads/*/differential/*.rs) Makefile
	@command -v cargo >/dev/null || { \
	  echo "the rival differential is built with Rust, which is missing: install it (https://rustup.rs)" >&2; exit 2; }
	@echo "building the rival differential into $(@D)"
	@cargo build --quiet --release --locked --manifest-path $(DIFFERENTIAL)/Cargo.toml --target-dir $(@D)
	@sed -n 's/^differential-dataflow = "=\(.*\)"/Differential Dataflow \1/p' $(DIFFERENTIAL)/Cargo.toml >$@

# CityBench has the jars of two engines that no package index has: $(call jars,PATTERN) copies those without PATTERN from its folder lib, or
# from the folder CITYBENCH, and fetches the one that can be missing there.
jars = @set -e; rm -rf $(@D); mkdir -p $(@D)/jars $(SERVED); found="$(CITYBENCH)"; \
  if [ ! -d "$$found" ]; then \
    found=$(@D)/citybench; \
    git clone -q --depth 1 --filter=blob:none --no-checkout "$(CITYBENCH)" $$found && git -C $$found checkout -q HEAD -- lib || { \
      echo "$(CITYBENCH) could not be fetched: name a folder with the jars of its folder lib: CITYBENCH=/folder" >&2; exit 2; }; \
  fi; \
  find "$$found" -name '*.jar' | grep -v $(1) | xargs -I{} cp {} $(@D)/jars; rm -rf $(@D)/citybench; \
  test -f $(@D)/jars/fastutil-6.4.2.jar || \
    $(IVY) -dependency it.unimi.dsi fastutil 6.4.2 -retrieve "$(abspath $(@D))/jars/[artifact]-[revision].[ext]" >$(SERVED)/fastutil.log 2>&1 || { \
    tail -n 5 $(SERVED)/fastutil.log >&2; echo "fastutil 6.4.2 could not be fetched: is Maven's repository reachable?" >&2; exit 2; }

$(RIVALS)/cqels/version: bench/contenders/triples.py Makefile | $(STAMP)
	@echo "installing CQELS 1.0 into $(@D)"
	$(call jars,'csparql\|je-4')
	@$(PY) -m cqels_opt.bench.contenders.triples $(@D)/jars/cqels.jar
	@echo "CQELS 1.0" >$@

$(RIVALS)/csparql/version: Makefile | $(STAMP)
	@echo "installing C-SPARQL 0.9 into $(@D)"
	$(call jars,'/cqels.jar\|/je-')
	@test -f $(@D)/jars/csparqlengine-0.9.jar
	@echo "C-SPARQL 0.9" >$@

# Two engines are built from their sources: $(call sources,URL,COMMIT) fetches them.
sources = @rm -rf $(@D); mkdir -p $(@D); git init -q $(@D)/source; \
  git -C $(@D)/source fetch -q --depth 1 "$(1)" $(2) && git -C $(@D)/source checkout -q FETCH_HEAD || { \
    echo "commit $(2) of $(1) could not be fetched" >&2; exit 2; }

$(RIVALS)/yasper/version: Makefile | $(STAMP)
	@command -v mvn >/dev/null || { echo "the rival yasper is built with Maven, which is missing: install it (apt-get install maven)" >&2; exit 2; }
	@echo "building YASPER into $(@D)"
	$(call sources,$(RSP4J),c46e0f674fb740b85543e73d8013196b18763abd)
	@mvn -q -B -ntp -f $(@D)/source/pom.xml -pl api,io,web,yasper,operatorapi -am -Dmaven.test.skip=true -Dmaven.source.skip=true \
	  package dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$(abspath $(@D))/jars"
	@cp $(@D)/source/*/target/*.jar $(@D)/jars
	@echo "YASPER 1.0.1" >$@

# The program is one of Kolibrie's own crate, which has its dependencies.
$(RIVALS)/kolibrie/version: bench/arena/engines/kolibrie/main.rs Makefile | $(STAMP)
	@command -v cargo >/dev/null || { echo "the rival kolibrie is built with Rust, which is missing: install it (https://rustup.rs)" >&2; exit 2; }
	@echo "building Kolibrie into $(@D), which takes ten minutes or more"
	$(call sources,$(KOLIBRIE),846becb1c59e327bc10f7a3047295045e1f6de5e)
	@mkdir -p $(@D)/source/kolibrie/src/bin && cp $< $(@D)/source/kolibrie/src/bin/arena.rs
	@CARGO_PROFILE_RELEASE_DEBUG=0 cargo build --quiet --release --locked -p kolibrie --bin arena \
	  --manifest-path $(@D)/source/Cargo.toml --target-dir $(@D)
	@echo "Kolibrie 0.1.1" >$@

micro: $(STAMP)
	@$(PY) -m pytest bench/micro --benchmark-only --benchmark-columns=min,median,rounds --benchmark-sort=name

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
