// Finds where the complete elements of a JSON array end, 64 bytes at a time.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_JSON_ELEMENTS_H_
#define PROFD_DAEMON_IMPORT_JSON_ELEMENTS_H_

namespace profd::importer {

// Returns where the last complete object or array between `at`, which is inside an array, and `end`
// ends; nullptr: there is none. The closing bracket of the array ends the search. The bytes between
// elements are not checked.
const char* EndOfWholeElements(const char* at, const char* end);

// The same without instructions that not every processor has; EndOfWholeElements() takes those it
// finds.
const char* EndOfWholeElementsForTesting(const char* at, const char* end);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_JSON_ELEMENTS_H_
