// What it takes to ask many daemons at once: `ps` of all of them, over mutual TLS.
//
//   profd_bench fleet [NODES [ROUNDS]]     (200, 9)
//
// The daemons are farms in other processes: gRPC servers that listen at up to 1,000 ports each and
// answer GetNode and ListTargets (8 targets each) from memory. Every port is a connection, a
// handshake and calls of its own, as with a daemon each; what a daemon does for an answer is left
// out. Farms and client share the machine.
//
//   cold   a new Fleet: channels, handshakes, GetNode, ListTargets
//   warm   the next Run() of the same Fleet: ListTargets. Only up to 1,024 nodes: of larger fleets,
//          most connections are made again, which costs what "cold" does
//   ps     the whole of `profctl --nodes ... ps --json`, from exec to exit, with its peak RSS and
//          its largest number of threads
//
// Wall time depends on how many cores the two sides share. CPU time per node is therefore printed
// for each side: the client's says what a workstation needs.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "cli/base/flags.h"
#include "cli/captures/fleet.h"
#include "daemon/base/lock_checks.h"
#include "daemon/base/str_cat.h"
#include "profd/v1/node.grpc.pb.h"
#include "profd/v1/targets.grpc.pb.h"
#include "tests/bench/benchmarks.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::cli {
namespace {

constexpr int kTargetsPerNode = 8;
constexpr int kMostPortsOfFarm = 1000;
constexpr int kMostKept = 1024;
constexpr int kWarmRuns = 3;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "profd_bench fleet: %s\n", what.c_str());
  std::exit(1);
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (text.str().empty()) Die(StrCat("cannot read ", path.string()));
  return text.str();
}

class FarmNode final : public v1::NodeService::Service {
  grpc::Status GetNode(grpc::ServerContext* /*context*/, const v1::GetNodeRequest* /*request*/,
                       v1::Node* node) override {
    node->set_name("farm");
    node->set_version("0.1.0");
    node->set_api_version(1);
    return grpc::Status::OK;
  }
};

class FarmTargets final : public v1::TargetService::Service {
  grpc::Status ListTargets(grpc::ServerContext* /*context*/,
                           const v1::ListTargetsRequest* /*request*/,
                           v1::ListTargetsResponse* response) override {
    for (int i = 0; i < kTargetsPerNode; ++i) {
      v1::Target* const target = response->add_targets();
      target->set_name(StrCat("targets/", i));
      target->set_pid(4711 + i);
      target->set_uid(1000);
      target->set_command("/usr/bin/python3 train.py --config large.yaml");
      target->set_job("88123");
      target->set_rank(i);
      target->set_current_step(1'000);
      (*target->mutable_metadata())["rank"] = StrCat(i);
    }
    return grpc::Status::OK;
  }
};

// Serves until its standard input ends; writes the ports to `out` first.
[[noreturn]] void RunFarm(const std::filesystem::path& pki, int nodes, int in, int out) {
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = ReadAll(pki / "ca.crt");
  options.pem_key_cert_pairs.push_back(
      {ReadAll(pki / "localhost.key"), ReadAll(pki / "localhost.crt")});
  const auto credentials = grpc::SslServerCredentials(options);
  FarmNode node;
  FarmTargets targets;
  std::vector<int> ports(static_cast<size_t>(nodes));
  grpc::ServerBuilder builder;
  for (int& port : ports) builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterService(&node);
  builder.RegisterService(&targets);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) Die("the farm cannot listen");
  const size_t bytes = ports.size() * sizeof(int);
  if (write(out, ports.data(), bytes) != static_cast<ssize_t>(bytes)) Die("write");
  char end = 0;
  while (read(in, &end, 1) > 0) {
  }
  std::_Exit(0);
}

// The farm's process, which ends with this object.
class Farm {
 public:
  Farm(const std::filesystem::path& pki, int nodes) {
    std::array<int, 2> to_farm{};
    std::array<int, 2> from_farm{};
    if (pipe(to_farm.data()) != 0 || pipe(from_farm.data()) != 0) Die("pipe");
    child_ = fork();
    if (child_ == 0) {
      close(to_farm[1]);
      RunFarm(pki, nodes, to_farm[0], from_farm[1]);
    }
    close(to_farm[0]);
    close(from_farm[1]);
    keep_alive_ = to_farm[1];
    ports_.resize(static_cast<size_t>(nodes));
    const size_t bytes = ports_.size() * sizeof(int);
    if (read(from_farm[0], ports_.data(), bytes) != static_cast<ssize_t>(bytes)) Die("no farm");
    close(from_farm[0]);
  }
  ~Farm() {
    kill(child_, SIGKILL);  // Farms that began later hold its pipe open.
    close(keep_alive_);
    waitpid(child_, nullptr, 0);
  }
  Farm(const Farm&) = delete;
  Farm& operator=(const Farm&) = delete;

  const std::vector<int>& ports() const { return ports_; }
  pid_t pid() const { return child_; }

 private:
  pid_t child_ = 0;
  int keep_alive_ = -1;
  std::vector<int> ports_;
};

std::vector<Fleet::Member> MembersOf(std::span<const int> ports, const ClientTls& tls) {
  std::vector<Fleet::Member> members;
  for (const int port : ports) {
    Fleet::Member member;
    member.node = StrCat("localhost:", port);
    member.endpoint.address = StrCat("127.0.0.1:", port);
    member.endpoint.from = "--nodes";
    member.endpoint.tls = tls;
    members.push_back(std::move(member));
  }
  return members;
}

void AskAll(Fleet& fleet) {
  fleet.Run(
      absl::Seconds(60),
      [](size_t /*member*/, DaemonClient& daemon) { return daemon.ListTargets().status(); },
      [](size_t /*member*/, const absl::Status& status) {
        if (!status.ok()) Die(status.ToString());
      });
}

double MillisecondsOf(const timespec& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

double MillisecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

// CPU time that all threads of a process have had, in ms.
double CpuTimeOf(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    Die("cannot read a CPU clock");
  }
  return MillisecondsOf(time);
}

double CpuTimeOf(const std::vector<std::unique_ptr<Farm>>& farms) {
  double sum = 0;
  for (const std::unique_ptr<Farm>& farm : farms) sum += CpuTimeOf(farm->pid());
  return sum;
}

int ThreadCountOf(pid_t process) {
  std::ifstream file(StrCat("/proc/", process, "/status"));
  std::string word;
  while (file >> word) {
    int count = 0;
    if (word == "Threads:" && file >> count) return count;
  }
  return 0;  // It has ended.
}

// Samples the number of threads of a process while it lives.
class ThreadSampler {
 public:
  explicit ThreadSampler(pid_t process)
      : sampler_([this, process](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            peak_ = std::max(peak_, ThreadCountOf(process));
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}

  int Stop() {
    sampler_.request_stop();
    sampler_.join();
    return peak_;
  }

 private:
  int peak_ = 0;
  std::jthread sampler_;  // Last: it uses the above.
};

struct PsRun {
  double cpu_ms = 0;
  double peak_mib = 0;
  int peak_threads = 0;
};

PsRun RunPs(const std::filesystem::path& node_file, const ClientTls& tls) {
  const char* build = std::getenv("PROFD_BUILD_DIR");
  const std::string profctl = StrCat(build == nullptr ? "build/release" : build, "/bin/profctl");
  const std::string nodes = StrCat("@", node_file.string());
  const pid_t child = fork();
  if (child == 0) {
    setenv("PROFD_TLS_CA", tls.ca_file.c_str(), 1);
    setenv("PROFD_TLS_CERT", tls.certificate_file.c_str(), 1);
    setenv("PROFD_TLS_KEY", tls.key_file.c_str(), 1);
    if (std::freopen("/dev/null", "w", stdout) == nullptr) std::_Exit(1);
    execl(profctl.c_str(), "profctl", "--nodes", nodes.c_str(), "ps", "--json", nullptr);
    std::_Exit(1);
  }
  ThreadSampler threads(child);
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || status != 0) Die("profctl failed");
  return {.cpu_ms = MillisecondsOf(usage.ru_utime) + MillisecondsOf(usage.ru_stime),
          .peak_mib = static_cast<double>(usage.ru_maxrss) / 1024,
          .peak_threads = threads.Stop()};
}

// What is measured of each round.
struct Series {
  std::vector<double> wall;
  std::vector<double> client_cpu;
  std::vector<double> farm_cpu;

  // `work` returns the client's CPU time.
  void Measure(const std::vector<std::unique_ptr<Farm>>& farms,
               const std::function<double()>& work) {
    const double farms_before = CpuTimeOf(farms);
    const auto begin = std::chrono::steady_clock::now();
    client_cpu.push_back(work());
    wall.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
    farm_cpu.push_back(CpuTimeOf(farms) - farms_before);
  }

  // The same for work in this process.
  void MeasureHere(const std::vector<std::unique_ptr<Farm>>& farms,
                   const std::function<void()>& work) {
    Measure(farms, [&] {
      const double before = CpuTimeOf(getpid());
      work();
      return CpuTimeOf(getpid()) - before;
    });
  }
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(const char* what, const Series& series, int nodes) {
  const auto [least, most] = std::minmax_element(series.wall.begin(), series.wall.end());
  std::printf(
      "%-6s wall: median %8.1f ms, min %8.1f, max %8.1f (%zu runs); CPU per node, medians: client "
      "%.3f ms, farms %.3f ms\n",
      what, MedianOf(series.wall), *least, *most, series.wall.size(),
      MedianOf(series.client_cpu) / nodes, MedianOf(series.farm_cpu) / nodes);
}

void Measure(int nodes, int64_t rounds) {
  const store::TemporaryFolder folder;
  const std::filesystem::path pki = folder / "pki";
  const std::string make = StrCat("deploy/pki/make_test_pki.sh '", pki.string(),
                                  "' --node localhost,127.0.0.1 --user alice >/dev/null");
  if (std::system(make.c_str()) != 0) Die("no certificates; run it in the source directory");
  std::vector<std::unique_ptr<Farm>> farms;
  std::vector<int> ports;
  while (std::ssize(ports) < nodes) {
    const int left = nodes - static_cast<int>(ports.size());
    farms.push_back(std::make_unique<Farm>(pki, std::min(left, kMostPortsOfFarm)));
    const std::vector<int>& more = farms.back()->ports();
    ports.insert(ports.end(), more.begin(), more.end());
  }
  const std::filesystem::path node_file = folder / "nodes.txt";
  {
    std::ofstream file(node_file);
    for (const int port : ports) file << "127.0.0.1:" << port << "\n";
  }
  const ClientTls tls{.ca_file = pki / "ca.crt",
                      .certificate_file = pki / "alice.crt",
                      .key_file = pki / "alice.key",
                      .server_name = ""};

  Series cold;
  Series warm;
  Series ps;
  PsRun most;
  for (int64_t round = 0; round < rounds; ++round) {
    {
      Fleet fleet(MembersOf(ports, tls));
      const auto ask_all = [&] { AskAll(fleet); };
      cold.MeasureHere(farms, ask_all);
      for (int i = 0; i < (nodes > kMostKept ? 0 : kWarmRuns); ++i) {
        warm.MeasureHere(farms, ask_all);
      }
    }
    ps.Measure(farms, [&] {
      const PsRun run = RunPs(node_file, tls);
      most.peak_mib = std::max(most.peak_mib, run.peak_mib);
      most.peak_threads = std::max(most.peak_threads, run.peak_threads);
      return run.cpu_ms;
    });
  }
  std::printf("%d nodes, %d targets each, mutual TLS\n", nodes, kTargetsPerNode);
  Print("cold", cold, nodes);
  if (!warm.wall.empty()) Print("warm", warm, nodes);
  Print("ps", ps, nodes);
  std::printf("ps     at most %.1f MiB resident, %d threads\n", most.peak_mib, most.peak_threads);
}

}  // namespace
}  // namespace profd::cli

namespace profd::bench {

int FleetBenchmark(int argc, char** argv) {
  const auto nodes = profd::cli::ParseInt(argc > 1 ? argv[1] : "200");
  const auto rounds = profd::cli::ParseInt(argc > 2 ? argv[2] : "9");
  if (!nodes.ok() || *nodes < 1 || *nodes > 16'000 || !rounds.ok() || *rounds < 1) {
    std::fprintf(stderr, "usage: profd_bench fleet [NODES [ROUNDS]]\n");
    return 2;
  }
  profd::SkipLockChecks();  // As profctl.
  profd::cli::Measure(static_cast<int>(*nodes), *rounds);
  return 0;
}

}  // namespace profd::bench
