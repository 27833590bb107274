// The status page as the library writes it: one page at one address for the life of the
// process. While no daemon is connected it is memory of our own; on WELCOME the daemon's
// page is mapped over it, filled in first; on disconnect ours again. So a step mark never
// asks who reads.
//
// Threads:   Record*() as said; ShareStatusPage() and KeepStatusPagePrivate() on the agent
//            thread (or in a forked child, before there is one).
// Hot path:  stores only.
// Fork:      the child's handler makes the page private again, before the child runs.
#ifndef PROFD_CLIENT_LIB_CORE_STATUS_PAGE_H_
#define PROFD_CLIENT_LIB_CORE_STATUS_PAGE_H_

#include <cstdint>

#include "client_lib/core/hot_state.h"
#include "proto/wire/status_page.h"

namespace profd::client {

struct alignas(kPageBytes) PaddedStatusPage : wire::StatusPage {};
extern constinit PaddedStatusPage g_status_page;

// The step thread's mark of step `step` at `ticks`. `os_thread`: who that is, where it is a new
// one; else 0. One thread at a time.
void RecordStepMark(uint64_t step, uint64_t ticks, uint32_t os_thread);

// A mark on any other thread.
void RecordForeignStepMark();

// How many steps were marked: of the source that the steps have now, see RenumberSteps().
uint64_t StepMarkCount();

// Where the process's steps come from.
wire::StepSource CurrentStepSource();

// Whether marks of `source` count: there is no better source. Any thread; another one may take over
// at once.
bool IsStepSource(wire::StepSource source);

// Makes `source` the one that counts, for good, if IsStepSource(). False: a better one has come.
// Call it before a mark, on the thread that makes the mark: no other one may be marking.
bool TakeStepSource(wire::StepSource source);

// Whether a source took over whose steps still have numbers that continue those of the source
// before it.
bool AreStepsToBeRenumbered();

// Gives these steps numbers of their own: what a lesser source counted, such as the batches of a
// validation before the training, is no longer in them. Call it before a mark, on the thread that
// makes the mark, and unless StepNumbersAreKept(), so that a capture has numbers of one kind.
void RenumberSteps();

// A batch was taken from a DataLoader. Any thread.
void RecordBatch();

// Shows how many names there are.
void RecordNameCounts(uint64_t interned, uint64_t other);

// Maps the daemon's page in `fd`, which stays the caller's. False: it is not a sealed
// status page; the page stays as it was.
bool ShareStatusPage(int fd);

void KeepStatusPagePrivate();

// The child of a fork starts to count at 0, from no source.
void ForgetStepMarks();

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_STATUS_PAGE_H_
