# libetcdlock: one Makefile for all of it. `make help` lists the targets.
#
#   CONFIG=release (default) | asan | ubsan | tsan | valgrind | coverage | fuzz   each has its own folder under build/
#   V=1 shows the commands; CC, CFLAGS, CPPFLAGS, LDFLAGS, DESTDIR, PREFIX and libdir are honoured.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := all

CONFIG ?= release
ifeq ($(filter $(CONFIG),release asan ubsan tsan valgrind coverage fuzz),)
$(error CONFIG=$(CONFIG) is not known: use release, asan, ubsan, tsan, valgrind, coverage or fuzz)
endif
comma := ,
V ?= 0
Q := $(if $(filter 1,$(V)),,@)

# ---- what is built --------------------------------------------------------------------------------------

version_part = $(shell sed -n 's/^\#define ETCDLOCK_VERSION_$(1) *\([0-9]*\).*/\1/p' include/etcdlock/version.h)
VERSION   := $(call version_part,MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
# The number of the binary interface, raised by hand when a linked program would break; not the version.
SOVERSION := 0

# CONFIG=fuzz wants clang with libFuzzer; any other compiler makes programs that run the seeds only.
ifeq ($(CONFIG),fuzz)
ifeq ($(origin CC),default)
CC := $(or $(shell command -v clang),gcc)
endif
FUZZER := $(shell echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
            $(CC) -fsanitize=fuzzer,address,undefined -x c -o /dev/null - 2>/dev/null && echo -fsanitize=fuzzer)
endif

OUT := build/$(CONFIG)$(if $(filter fuzz,$(CONFIG)),$(if $(FUZZER),,-seeds))
GEN := build/gen

LIB_SOURCES     := $(wildcard lib/core/*.c lib/recipes/*.c lib/transport/*.c)
LIB_OBJECTS     := $(LIB_SOURCES:%.c=$(OUT)/%.o) $(OUT)/$(GEN)/etcd.pb-c.o
SUPPORT_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(filter-out test/support/clock_shim.c,$(wildcard test/support/*.c)))
CLOCK_SHIM      := $(OUT)/test/clock_shim.so
FENCE_OBJECTS   := $(patsubst %.c,$(OUT)/%.o,$(wildcard lib/fence/*.c))
tests_of         = $(patsubst %.c,$(OUT)/%,$(wildcard test/$(1)/*.c))
ALL_TESTS       := $(foreach kind,unit sim live fault proof,$(call tests_of,$(kind)))
TORTURE         := $(OUT)/test/torture/torture $(OUT)/test/torture/torture_client
TORTURE_PARTS   := $(filter-out $(addsuffix .o,$(TORTURE)),$(patsubst %.c,$(OUT)/%.o,$(wildcard test/torture/*.c)))
FENCE_CRASH     := $(OUT)/test/fence/fence_crash
# Calls of the system that can be refused, in the tests that are linked so.
FENCE_REFUSAL   := $(OUT)/test/fence/refusal.o
FENCE_REFUSED   := $(addprefix $(OUT)/test/unit/,fence_memory_test fence_fault_test)
FENCE_PARTS     := $(filter-out $(FENCE_CRASH).o $(FENCE_REFUSAL),$(patsubst %.c,$(OUT)/%.o,$(wildcard test/fence/*.c)))
BENCH           := $(addprefix $(OUT)/test/bench/,bench floor ours ours_async waiters_ours)
# Workers of other systems, where their libraries are installed.
BENCH_PEERS     := $(addprefix $(OUT)/test/bench/,$(if $(wildcard /usr/include/hiredis/hiredis.h),redlock) \
                     $(if $(wildcard /usr/include/zookeeper/zookeeper.h),zookeeper))
BENCH_PARTS     := $(filter-out $(patsubst %,$(OUT)/test/bench/%.o,bench floor ours ours_async waiters_ours redlock zookeeper counted fence_bench), \
                     $(patsubst %.c,$(OUT)/%.o,$(wildcard test/bench/*.c)))
LOADER_NAME     := libetcdlock.so.$(SOVERSION)
STATIC          := $(OUT)/libetcdlock.a
SHARED          := $(OUT)/libetcdlock.so.$(VERSION)
# The guard for the resource's side is a library of its own: it needs neither the first one nor gRPC.
FENCE_LOADER    := libetcdlock-fence.so.$(SOVERSION)
FENCE_STATIC    := $(OUT)/libetcdlock-fence.a
FENCE_SHARED    := $(OUT)/libetcdlock-fence.so.$(VERSION)
FENCE_ALL       := $(FENCE_STATIC) $(OUT)/libetcdlock-fence.so $(OUT)/etcdlock-fence.pc

# packages_NAME is what an example wants besides the library, as pkg-config and Debian name it: where it is missing the
# example is left out. sources_NAME: of a folder that is not one program of all its files.
FILE_EXAMPLES   := $(basename $(notdir $(wildcard examples/*.c)))
packages_libuv_worker  := libuv libuv1-dev
FOLDER_EXAMPLES := $(notdir $(patsubst %/,%,$(sort $(dir $(wildcard examples/*/*.c))))) jobs_postgres
sources_jobs           := worker.c table_sqlite.c fence_sqlite.c
packages_jobs          := sqlite3 libsqlite3-dev
sources_jobs_postgres  := worker.c table_postgres.c fence_postgres.c
packages_jobs_postgres := libpq libpq-dev
folder_of_jobs_postgres := jobs

# ---- how ------------------------------------------------------------------------------------------------

ifeq ($(origin CC),default)
CC := gcc
endif
PKG_CONFIG ?= pkg-config
PROTOC_C   ?= protoc-c
PACKAGES   := grpc libprotobuf-c libcjson openssl

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual \
            -Wwrite-strings -Wformat=2 -Wundef -Wvla -Wimplicit-fallthrough -Wdouble-promotion -Wnull-dereference
ifneq ($(CI),)
WARNINGS += -Werror
endif

# Coverage is told by lines, which the optimizer moves, joins and drops.
CFLAGS ?= $(if $(filter coverage,$(CONFIG)),-O0,-O2) -g
ALL_CPPFLAGS = -Iinclude -Ilib -I$(GEN) -D_GNU_SOURCE $(CPPFLAGS) $(PACKAGE_CFLAGS)
ALL_CFLAGS   = -std=c11 $(WARNINGS) -fPIC -fvisibility=hidden -pthread -fno-strict-overflow $(CONFIG_FLAGS) $(CFLAGS)
ALL_LDFLAGS  = -pthread $(CONFIG_FLAGS) $(LDFLAGS)
PACKAGE_CFLAGS = $(shell $(PKG_CONFIG) --cflags libprotobuf-c libcjson 2>/dev/null)
LIBS           = -lgrpc -lgpr -lprotobuf-c -lcjson -lcrypto
TEST_LIBS      = -lcheck -lsubunit -lrt -lm

CONFIG_FLAGS_asan     := -fsanitize=address -fno-omit-frame-pointer
CONFIG_FLAGS_ubsan    := -fsanitize=undefined -fno-sanitize-recover=all
CONFIG_FLAGS_tsan     := -fsanitize=thread -fno-omit-frame-pointer
CONFIG_FLAGS_coverage := --coverage -fprofile-update=atomic
CONFIG_FLAGS_fuzz     := $(if $(FUZZER),-fsanitize=fuzzer-no-link$(comma)address$(comma)undefined -fno-sanitize-recover=all,\
                           -fsanitize=address) -fno-omit-frame-pointer
CONFIG_FLAGS          := $(CONFIG_FLAGS_$(CONFIG))

PRESENT_EXAMPLES := $(foreach name,$(FILE_EXAMPLES) $(FOLDER_EXAMPLES),$(if $(packages_$(name)),$(shell \
                      $(PKG_CONFIG) --exists $(firstword $(packages_$(name))) 2>/dev/null && echo $(name)),$(name)))
ABSENT_EXAMPLES  := $(filter-out $(PRESENT_EXAMPLES),$(FILE_EXAMPLES) $(FOLDER_EXAMPLES))
EXAMPLES         := $(addprefix $(OUT)/examples/,$(PRESENT_EXAMPLES))

.PHONY: all
all: $(STATIC) $(OUT)/libetcdlock.so $(OUT)/etcdlock.pc $(FENCE_ALL) $(EXAMPLES) absent-examples ## the libraries, their .pc files, the examples

$(GEN)/etcd.pb-c.c $(GEN)/etcd.pb-c.h &: lib/transport/etcd.proto
	@mkdir -p $(GEN)
	@echo "  PROTO   $<"
	$(Q)$(PROTOC_C) --proto_path=lib/transport --c_out=$(GEN) $<

$(OUT)/$(GEN)/%.o: $(GEN)/%.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -w -c -o $@ $<

$(OUT)/%.o: %.c | $(GEN)/etcd.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(ALL_CPPFLAGS) $(if $(filter test/%,$<),-Itest) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(STATIC): $(LIB_OBJECTS)
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(SHARED): $(LIB_OBJECTS) lib/etcdlock.map
	@echo "  LD      $@"
	$(Q)$(CC) -shared -Wl,-soname,$(LOADER_NAME) -Wl,--version-script=lib/etcdlock.map \
	  $(if $(CONFIG_FLAGS),,-Wl$(comma)--no-undefined) $(ALL_LDFLAGS) -o $@ $(LIB_OBJECTS) $(LIBS)

$(OUT)/libetcdlock.so: $(SHARED)
	$(Q)ln -sf $(notdir $<) $(OUT)/$(LOADER_NAME) && ln -sf $(LOADER_NAME) $@

$(FENCE_STATIC): $(FENCE_OBJECTS)
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(FENCE_SHARED): $(FENCE_OBJECTS) lib/etcdlock-fence.map
	@echo "  LD      $@"
	$(Q)$(CC) -shared -Wl,-soname,$(FENCE_LOADER) -Wl,--version-script=lib/etcdlock-fence.map \
	  $(if $(CONFIG_FLAGS),,-Wl$(comma)--no-undefined) $(ALL_LDFLAGS) -o $@ $(FENCE_OBJECTS)

$(OUT)/libetcdlock-fence.so: $(FENCE_SHARED)
	$(Q)ln -sf $(notdir $<) $(OUT)/$(FENCE_LOADER) && ln -sf $(FENCE_LOADER) $@

$(OUT)/etcdlock.pc: include/etcdlock/version.h Makefile
	@mkdir -p $(@D)
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(libdir)' 'includedir=$(includedir)' '' \
	  'Name: etcdlock' 'Description: distributed locks on top of etcd v3' 'Version: $(VERSION)' \
	  'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -letcdlock' \
	  'Libs.private: $(LIBS) -pthread' > $@

$(OUT)/etcdlock-fence.pc: include/etcdlock/version.h Makefile
	@mkdir -p $(@D)
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(libdir)' 'includedir=$(includedir)' '' \
	  'Name: etcdlock-fence' "Description: guard for resources that are protected by etcdlock's locks" \
	  'Version: $(VERSION)' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -letcdlock-fence' \
	  'Libs.private: -pthread' > $@

$(OUT)/test/unit/bench_figures_test: $(addprefix $(OUT)/test/bench/,figures.o goal.o)

# The objects of examples lie apart, since a program may have its folder's name.
$(OUT)/parts/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(EXAMPLE_CFLAGS) -MMD -MP -c -o $@ $<

# example_words NAME --cflags|--libs: what pkg-config says of its package
example_words = $(if $(packages_$(1)),$(shell $(PKG_CONFIG) $(2) $(firstword $(packages_$(1)))))

# example NAME FOLDER
define example
$(OUT)/examples/$(1): EXAMPLE_CFLAGS := $(call example_words,$(1),--cflags)
$(OUT)/examples/$(1): EXAMPLE_LIBS := $(call example_words,$(1),--libs)
$(OUT)/examples/$(1): $(patsubst %.c,$(OUT)/parts/%.o,$(or $(addprefix examples/$(2)/,$(sources_$(1))),\
  $(wildcard examples/$(1).c examples/$(2)/*.c)))
endef
$(foreach name,$(PRESENT_EXAMPLES),$(eval $(call example,$(name),$(or $(folder_of_$(name)),$(name)))))

$(addprefix $(OUT)/examples/,$(PRESENT_EXAMPLES)): $(STATIC) $(FENCE_STATIC)
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(STATIC) $(FENCE_STATIC) $(LIBS) $(EXAMPLE_LIBS)

.PHONY: absent-examples
absent-examples:
	@$(foreach name,$(ABSENT_EXAMPLES),echo "  ABSENT  examples/$(name): the package $(lastword $(packages_$(name))) is not installed";)

$(OUT)/test/%: $(OUT)/test/%.o $(SUPPORT_OBJECTS) $(STATIC) $(FENCE_STATIC)
	@echo "  LD      $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(STATIC) $(FENCE_STATIC) $(LIBS) $(TEST_WRAPS) $(TEST_LIBS)

$(FENCE_CRASH) $(filter $(OUT)/test/unit/fence_%,$(call tests_of,unit)): $(FENCE_PARTS)
$(FENCE_REFUSED): $(FENCE_REFUSAL)
$(FENCE_REFUSED): TEST_WRAPS := $(foreach name,calloc strdup strndup free renameat2 linkat openat pthread_atfork,-Wl$(comma)--wrap=$(name))

$(TORTURE): %: %.o $(TORTURE_PARTS) $(SUPPORT_OBJECTS) $(STATIC)
	@echo "  LD      $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(TORTURE_PARTS) $(SUPPORT_OBJECTS) $(STATIC) $(LIBS) $(TEST_LIBS)

$(OUT)/test/bench/redlock: BENCH_LIBS := -lhiredis
$(OUT)/test/bench/zookeeper: BENCH_LIBS := -lzookeeper_mt
# Counts what the library allocates: see test/bench/counted.h.
$(OUT)/test/bench/waiters_ours: BENCH_LIBS := $(foreach name,alloc realloc free strdup memdup,-Wl,--wrap=el_$(name))
$(OUT)/test/bench/waiters_ours: $(OUT)/test/bench/counted.o

$(BENCH) $(BENCH_PEERS): %: %.o $(BENCH_PARTS) $(STATIC)
	@echo "  LD      $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(STATIC) $(LIBS) $(BENCH_LIBS) -lm

# Without the sanitizers: it is loaded before them.
$(CLOCK_SHIM): test/support/clock_shim.c
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CPPFLAGS) -D_GNU_SOURCE -Itest -std=c11 $(WARNINGS) -fPIC $(CFLAGS) -shared -pthread $(LDFLAGS) -o $@ $< -ldl

$(call tests_of,fault): | $(CLOCK_SHIM)

FUZZ_SHARED := $(addprefix $(OUT)/test/fuzz/,input.o answer_walk.o $(if $(FUZZER),,seeds_main.o))

$(OUT)/test/fuzz/%_fuzz: $(OUT)/test/fuzz/%_fuzz.o $(FUZZ_SHARED) $(STATIC) $(FENCE_STATIC)
	@echo "  LD      $@"
	$(Q)$(CC) $(FUZZER) $(ALL_LDFLAGS) -Wl,--as-needed -o $@ $< $(FUZZ_SHARED) $(STATIC) $(FENCE_STATIC) $(LIBS)

MAKE_SEEDS_OBJECTS := $(addprefix $(OUT)/test/,fuzz/make_seeds.o fuzz/seed_messages.o support/codec_samples.o)

$(OUT)/test/fuzz/make_seeds: $(MAKE_SEEDS_OBJECTS) $(STATIC)
	@echo "  LD      $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,--as-needed -o $@ $(MAKE_SEEDS_OBJECTS) $(STATIC) $(LIBS)

.SECONDARY:

# ---- the two commands for a new user ----------------------------------------------------------------------

.PHONY: setup
setup: ## finds what is missing on this machine and installs it
	@CONFIG=$(CONFIG) scripts/setup.sh

.PHONY: demo
demo: setup ## a cluster of three, workers on one lock, one killed, one frozen, the leader stopped: what happened
	@$(MAKE) --no-print-directory all
	@BUILD=$(OUT) scripts/demo.sh

.PHONY: setup-proof
setup-proof:
	@CONFIG=$(CONFIG) scripts/setup.sh --proof

.PHONY: test
test: ## all tests: unit, simulator, live on real etcd, the proofs of the examples, the installation
	@CONFIG=$(CONFIG) scripts/setup.sh $(if $(filter proof,$(TEST_KINDS)),--proof)
	@$(MAKE) --no-print-directory run-all-tests

# ThreadSanitizer cannot see into gRPC, which is not built with it: it gets the tests that run on the simulator.
TEST_KINDS := unit sim $(if $(filter tsan,$(CONFIG)),,live $(if $(filter release,$(CONFIG)),proof install))

# What was run of lib/ is told at the end, whether the tests passed or not: see scripts/coverage.sh.
told = $(if $(filter coverage,$(CONFIG)),; status=$$?; OUT=$(OUT) scripts/coverage.sh && exit $$status)

.PHONY: run-all-tests
run-all-tests: all $(foreach kind,$(TEST_KINDS),$(call tests_of,$(kind)))
	@$(if $(filter coverage,$(CONFIG)),OUT=$(OUT) scripts/coverage.sh forget)
	@CONFIG=$(CONFIG) OUT=$(OUT) scripts/run-tests.sh $(TEST_KINDS)$(told)

define kind_target
.PHONY: test-$(1)
test-$(1): setup$(if $(filter proof,$(1)),-proof)
	@$$(MAKE) --no-print-directory run-test-$(1)
.PHONY: run-test-$(1)
run-test-$(1): all $(call tests_of,$(1))
	@CONFIG=$(CONFIG) OUT=$(OUT) JOBS=$$(or $$(JOBS),$(if $(filter fault,$(1)),2,1)) scripts/run-tests.sh $(1)$$(told)
endef
$(foreach kind,unit sim live fault proof install,$(eval $(call kind_target,$(kind))))
# What each of these does, for `make help`:
test-unit: ## the pure parts
test-sim: ## the simulator's seeds; SEED=n replays one, SEEDS=n runs so many, FIRST=n starts there
test-live: ## every behaviour of the public headers on real etcd; ETCD=folder chooses the binaries
test-fault: ## networks, servers, processes and clocks that fail; not part of `make test`; JOBS=n (2) at a time; ETCD=folder as above
test-proof: ## holders frozen in the middle of the examples: their late writes are refused; on one member and on three
test-install: ## install into an empty folder, compile against it, compare the export list, uninstall

N ?= 10000

.PHONY: test-fence-crash
test-fence-crash: setup ## the guard in a file under N=n (10,000) SIGKILLs at random points; SEED=n repeats the choices
	@$(MAKE) --no-print-directory $(FENCE_CRASH)
	@$(FENCE_CRASH) --kills $(N) $(if $(SEED),--seed $(SEED))

.PHONY: bench-fence
bench-fence: setup ## what a check of the guard costs, in memory and in a file
	@$(MAKE) --no-print-directory $(OUT)/test/bench/fence_bench
	@$(OUT)/test/bench/fence_bench

MINUTES ?= 2

.PHONY: torture
torture: setup ## clients that lock while everything breaks, judged at the end; MINUTES=n (2), SEED=n repeats the faults
	@$(MAKE) --no-print-directory run-torture

.PHONY: run-torture
run-torture: $(TORTURE)
	@BUILD=$(OUT) scripts/torture.sh --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

.PHONY: build-tests
build-tests: $(ALL_TESTS) $(TORTURE) $(BENCH) ## compiles the tests without running them

# ---- how quick it is, beside others ------------------------------------------------------------------------

.PHONY: bench
bench: setup ## ours and the peers in turn; ONLY=case,case ROUNDS=n (3) SECONDS_EACH=n (2.5) MEMBERS=1|3 (both); build/bench.json
	@$(MAKE) --no-print-directory run-bench

.PHONY: run-bench
run-bench: $(BENCH) $(BENCH_PEERS)
	@BUILD=$(OUT) ONLY='$(ONLY)' ROUNDS='$(ROUNDS)' SECONDS_EACH='$(SECONDS_EACH)' MEMBERS='$(MEMBERS)' scripts/bench.sh

.PHONY: bench-setup
bench-setup: ## installs the peers: etcd's Go client, Redis, ZooKeeper
	@scripts/setup.sh --bench

# ---- bytes from outside, made up --------------------------------------------------------------------------

.PHONY: fuzz
fuzz: ## libFuzzer on all that reads bytes from outside, SECONDS_EACH=n (20), TARGET=name; finds stay in build/fuzz/findings
	@scripts/setup.sh --fuzz
	@$(MAKE) --no-print-directory CONFIG=fuzz run-fuzz

.PHONY: test-fuzz
test-fuzz: ## the fuzz targets on their seeds and for 5 s each; without clang the seeds only
	@scripts/setup.sh --fuzz || scripts/setup.sh
	@$(MAKE) --no-print-directory CONFIG=fuzz SECONDS_EACH=5 run-fuzz

.PHONY: run-fuzz
run-fuzz: $(if $(TARGET),$(OUT)/test/fuzz/$(TARGET)_fuzz,$(patsubst %.c,$(OUT)/%,$(wildcard test/fuzz/*_fuzz.c)))
	@OUT=$(OUT) scripts/fuzz.sh $(or $(SECONDS_EACH),20) $(TARGET)

.PHONY: fuzz-seeds
fuzz-seeds: $(OUT)/test/fuzz/make_seeds ## writes test/fuzz/seeds anew, from real encodings
	$(Q)rm -rf test/fuzz/seeds && $< test/fuzz/seeds

# ---- keeping it well --------------------------------------------------------------------------------------

.PHONY: lint
lint: ## formatting, clang-tidy, cppcheck, gcc -fanalyzer, sizes of files and functions, scripts, README tables
	@scripts/setup.sh --lint --proof
	@$(MAKE) --no-print-directory all
	@OUT=$(OUT) CPPFLAGS_FOR_LINT='$(ALL_CPPFLAGS) $(foreach name,$(PRESENT_EXAMPLES),$(call example_words,$(name),--cflags))' \
	  scripts/lint.sh

.PHONY: format
format: ## clang-format over the tree
	$(Q)git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

# ---- installation -------------------------------------------------------------------------------------------

PREFIX     ?= /usr/local
libdir     ?= $(PREFIX)/lib
includedir ?= $(PREFIX)/include
INSTALL    ?= install
PUBLIC_HEADERS := $(wildcard include/etcdlock/*.h)

.PHONY: install
install: $(STATIC) $(OUT)/libetcdlock.so $(OUT)/etcdlock.pc $(FENCE_ALL) ## into DESTDIR/PREFIX (default /usr/local)
	$(Q)$(INSTALL) -d $(DESTDIR)$(includedir)/etcdlock $(DESTDIR)$(libdir)/pkgconfig
	$(Q)$(INSTALL) -m 644 include/etcdlock.h $(DESTDIR)$(includedir)/
	$(Q)$(INSTALL) -m 644 $(PUBLIC_HEADERS) $(DESTDIR)$(includedir)/etcdlock/
	$(Q)$(INSTALL) -m 644 $(STATIC) $(FENCE_STATIC) $(DESTDIR)$(libdir)/
	$(Q)$(INSTALL) -m 755 $(SHARED) $(FENCE_SHARED) $(DESTDIR)$(libdir)/
	$(Q)ln -sf libetcdlock.so.$(VERSION) $(DESTDIR)$(libdir)/$(LOADER_NAME)
	$(Q)ln -sf $(LOADER_NAME) $(DESTDIR)$(libdir)/libetcdlock.so
	$(Q)ln -sf libetcdlock-fence.so.$(VERSION) $(DESTDIR)$(libdir)/$(FENCE_LOADER)
	$(Q)ln -sf $(FENCE_LOADER) $(DESTDIR)$(libdir)/libetcdlock-fence.so
	$(Q)$(MAKE) --no-print-directory -B $(OUT)/etcdlock.pc $(OUT)/etcdlock-fence.pc
	$(Q)$(INSTALL) -m 644 $(OUT)/etcdlock.pc $(OUT)/etcdlock-fence.pc $(DESTDIR)$(libdir)/pkgconfig/

.PHONY: uninstall
uninstall: ## what install put there
	$(Q)rm -f $(DESTDIR)$(includedir)/etcdlock.h $(PUBLIC_HEADERS:include/%=$(DESTDIR)$(includedir)/%) \
	  $(DESTDIR)$(libdir)/libetcdlock.a $(DESTDIR)$(libdir)/libetcdlock.so \
	  $(DESTDIR)$(libdir)/$(LOADER_NAME) $(DESTDIR)$(libdir)/libetcdlock.so.$(VERSION) \
	  $(DESTDIR)$(libdir)/pkgconfig/etcdlock.pc \
	  $(DESTDIR)$(libdir)/libetcdlock-fence.a $(DESTDIR)$(libdir)/libetcdlock-fence.so \
	  $(DESTDIR)$(libdir)/$(FENCE_LOADER) $(DESTDIR)$(libdir)/libetcdlock-fence.so.$(VERSION) \
	  $(DESTDIR)$(libdir)/pkgconfig/etcdlock-fence.pc
	$(Q)rmdir $(DESTDIR)$(includedir)/etcdlock 2>/dev/null || true

.PHONY: clean
clean: ## removes build/
	$(Q)rm -rf build

.PHONY: help
help: ## this list
	@echo "targets:"
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'
	@echo "with CONFIG=asan|ubsan|tsan|valgrind|coverage for the test targets, V=1 to see the commands"
	@echo "with CONFIG=coverage they end with what was run of lib/; scripts/coverage.sh --help tells more"

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
