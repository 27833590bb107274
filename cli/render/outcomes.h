// What commands answer with --json that act on captures or write files: cancel, delete, pin, and
// unpin; purge; export; fetch; import.
//
// What an answer refers to must outlive it.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_OUTCOMES_H_
#define PROFD_CLI_RENDER_OUTCOMES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/base/failures.h"
#include "cli/base/object.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/fleet.h"
#include "cli/client/capture_view.h"
#include "cli/render/capture.h"
#include "daemon/report/ranks/clock_alignment.h"

namespace profd::cli {

// ---- cancel, delete, pin, unpin ----

struct ActedOnAnswer {
  std::vector<CaptureJson> captures;  // As they are now.
  std::vector<Failure> failures;
  const std::vector<NodeOutcome>* outcomes = nullptr;  // nullptr: one daemon was asked.
};
const ObjectDescription<ActedOnAnswer>& ActedOnObject();

// ---- purge ----

struct PurgeAnswer {
  bool dry_run = false;
  int64_t capture_count = 0;
  int64_t file_bytes = 0;
  const std::vector<NodeOutcome>* outcomes = nullptr;
};
const ObjectDescription<PurgeAnswer>& PurgeObject();

// ---- export ----

struct TraceFile {
  std::string path;
  std::string format;  // As --format has it.
  int64_t bytes = 0;
};
struct ExportAnswer {
  const CaptureView& view;
  TraceFile file;
};
const ObjectDescription<ExportAnswer>& ExportObject();

struct GroupExportAnswer {
  const CaptureSet& set;
  TraceFile file;
  const report::ClockAlignment& clocks;
};
const ObjectDescription<GroupExportAnswer>& GroupExportObject();

// ---- fetch ----

struct FetchedCapture {
  const CaptureRecord* record = nullptr;
  std::string path;
};
const ObjectDescription<FetchedCapture>& FetchedObject();

struct GroupFetchAnswer {
  std::vector<FetchedCapture> captures;
  std::vector<Failure> failures;
  const std::vector<NodeOutcome>* outcomes = nullptr;
};
const ObjectDescription<GroupFetchAnswer>& GroupFetchObject();

// ---- import ----

struct ImportedTrace {
  CaptureRecord record;
  std::string path;    // Empty: it is in a daemon.
  CaptureView stored;  // As the daemon has it; empty if it is a file.
};
struct ImportAnswer {
  std::vector<ImportedTrace> captures;
  std::string group;                       // Empty: none.
  std::span<const int64_t> missing_ranks;  // Of the group's job; the first of them.
  int64_t missing_rank_count = 0;
  std::vector<Failure> failures;
};
const ObjectDescription<ImportAnswer>& ImportAnswerObject();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_OUTCOMES_H_
