// UniqueFd owns one file descriptor and closes it. Move-only; -1 is empty.
#ifndef PROFD_DAEMON_BASE_UNIQUE_FD_H_
#define PROFD_DAEMON_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace profd {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_UNIQUE_FD_H_
