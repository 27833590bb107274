// FreedBy: a deleter for what a C library allocates.
//
//   using Certificate = std::unique_ptr<X509, FreedBy<X509_free>>;
#ifndef PROFD_DAEMON_BASE_FREED_BY_H_
#define PROFD_DAEMON_BASE_FREED_BY_H_

namespace profd {

template <auto kFree>
struct FreedBy {
  template <typename T>
  void operator()(T* value) const {
    kFree(value);
  }
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_FREED_BY_H_
