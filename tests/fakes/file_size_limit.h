// FileSizeLimit: while it lives, the process cannot make a file, or a memfd, larger than `bytes`,
// as if the disk or the memory were full. Writes beyond that fail with EFBIG. Threads: it is a
// limit of the process; SIGXFSZ is ignored from then on.
#ifndef PROFD_TESTS_FAKES_FILE_SIZE_LIMIT_H_
#define PROFD_TESTS_FAKES_FILE_SIZE_LIMIT_H_

#include <signal.h>
#include <sys/resource.h>

namespace profd {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lower = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_FILE_SIZE_LIMIT_H_
