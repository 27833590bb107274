// How far the whole elements of a JSON array reach: what json_skip.h says of one value, for a run
// of objects, in 64 bytes at a time.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_JSON_ELEMENTS_H_
#define PROFD_DAEMON_IMPORT_JSON_ELEMENTS_H_

namespace profd::importer {

// After the last object, or array, that ends before `end`, of those that begin at `at` inside an
// array, whose closing bracket ends the search; nullptr: there is none. What stands between them is
// not looked at.
const char* EndOfWholeElements(const char* at, const char* end);

// The same without instructions that not every processor has; EndOfWholeElements() takes those it
// finds.
const char* EndOfWholeElementsForTesting(const char* at, const char* end);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_JSON_ELEMENTS_H_
