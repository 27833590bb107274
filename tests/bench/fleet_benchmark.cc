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
//   warm   the next Run() of the same Fleet: ListTargets; not kept connections are made anew
//   ps     the whole of `profctl --nodes ... ps --json`, from exec to exit, and its peak RSS
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
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <string>
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

// Returns the peak of its resident memory, in MiB.
double RunPs(const std::filesystem::path& node_file, const ClientTls& tls) {
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
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || status != 0) Die("profctl failed");
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

double MillisecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

void Print(const char* what, const char* unit, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("%-6s median %8.1f %s, min %8.1f, max %8.1f (%zu rounds)\n", what,
              values[values.size() / 2], unit, values.front(), values.back(), values.size());
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
    for (const int port : ports) file << "localhost:" << port << "\n";
  }
  const ClientTls tls{.ca_file = pki / "ca.crt",
                      .certificate_file = pki / "alice.crt",
                      .key_file = pki / "alice.key",
                      .server_name = ""};

  std::vector<double> cold;
  std::vector<double> warm;
  std::vector<double> ps;
  std::vector<double> memory;
  for (int64_t round = 0; round < rounds; ++round) {
    Fleet fleet(MembersOf(ports, tls));
    cold.push_back(MillisecondsOf([&] { AskAll(fleet); }));
    for (int i = 0; i < 3; ++i) warm.push_back(MillisecondsOf([&] { AskAll(fleet); }));
    ps.push_back(MillisecondsOf([&] { memory.push_back(RunPs(node_file, tls)); }));
  }
  std::printf("%d nodes, %d targets each, mutual TLS\n", nodes, kTargetsPerNode);
  Print("cold", "ms", cold);
  Print("warm", "ms", warm);
  Print("ps", "ms", ps);
  Print("memory", "MiB", memory);
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
