// What differs from one CUPTI to the next: the sizes of its records, and what it knows of.
#ifndef PROFD_TESTS_CUPTI_STANDIN_VERSIONS_H_
#define PROFD_TESTS_CUPTI_STANDIN_VERSIONS_H_

#include <cstdint>

namespace sgpu {

// As cuptiGetVersion() numbers them.
enum CuptiVersion : uint32_t {
  kCupti11_2 = 14,
  kCupti11_8 = 18,
  kCupti12_4 = 22,
  kCupti12_6 = 24,
  kCupti12_9 = 27,
  kCupti13_0 = 130001,
  kCupti13_2 = 130200,
  kCuptiFuture = 130300,
};

// The version this copy emulates: the setting cupti_version, else kDefaultVersion.
uint32_t Version();
bool VersionIsAtLeast(uint32_t version);

// What this file of the stand-in was linked to be; in default_version.cc.
extern const uint32_t kDefaultVersion;

// The size of a record of `kind`; 0: this version has no such kind.
uint32_t RecordSize(uint32_t kind);
// No record is larger than this.
uint32_t LargestRecordSize();

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_VERSIONS_H_
