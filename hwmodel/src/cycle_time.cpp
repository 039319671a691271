#include "batchless/hwmodel/cycle_time.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

#include "checks.h"

namespace batchless::hwmodel {
namespace {

// A node is an action of a worker or a message on a link.
struct Node {
  double seconds = 0;
  int worker = -1;
  int boundary = -1;
  std::int64_t offset = 0;  // of an action's micro-batch
};

struct Edge {
  std::int32_t from = 0;
  std::int32_t to = 0;
  double weight = 0;  // seconds of `from` and the latency between the two
  std::int64_t cycles = 0;
};

class EventGraph {
 public:
  EventGraph(const SteadyState& steady, const PipelineTimes& times)
      : steady_(steady), times_(times) {
    AddActions();
    AddMessages();
  }

  CycleTime Solve() {
    CycleTime result;
    result.microbatches_per_cycle = steady_.microbatches_per_cycle;
    result.busy_seconds.resize(steady_.workers.size());
    for (const Node& node : nodes_) {
      if (node.worker >= 0) {
        result.busy_seconds[node.worker] += node.seconds;
      }
    }
    const auto slowest = std::ranges::max_element(result.busy_seconds);
    result.seconds = *slowest;
    result.workers = {static_cast<int>(slowest - result.busy_seconds.begin())};
    for (const Node& node : nodes_) {
      const double busy = node.seconds * static_cast<double>(steady_.microbatches_per_cycle);
      if (node.boundary < 0 || busy <= result.seconds) continue;
      result.seconds = busy;
      result.boundary = node.boundary;
      result.workers.clear();
    }
    RefuseIf(result.seconds <= 0, "times", 0.0, "a cycle that takes time");
    Raise(result);
    return result;
  }

 private:
  std::int64_t Ordinal(int stage, ActionKind kind, std::int64_t offset) const {
    const std::int64_t m = steady_.microbatches_per_cycle;
    const std::int64_t residue = ((offset % m) + m) % m;
    const auto k = static_cast<std::int64_t>(kind);
    return (stage * std::int64_t{4} + k) * m + residue;
  }

  void AddEdge(std::int64_t from, std::int64_t to, double latency, std::int64_t cycles) {
    edges_.push_back({static_cast<std::int32_t>(from), static_cast<std::int32_t>(to),
                      nodes_[from].seconds + latency, cycles});
  }

  // One after the other, and the first of a cycle after the last of the one before.
  void AddLoop(const std::vector<std::int64_t>& nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const bool is_last = i + 1 == nodes.size();
      AddEdge(nodes[i], nodes[is_last ? 0 : i + 1], 0, is_last ? 1 : 0);
    }
  }

  void AddActions() {
    const std::int64_t m = steady_.microbatches_per_cycle;
    node_of_.assign(static_cast<std::size_t>(steady_.stages * 4 * m), -1);
    for (std::size_t w = 0; w < steady_.workers.size(); ++w) {
      std::vector<std::int64_t> of_worker;
      for (const SteadyAction& action : steady_.workers[w]) {
        const auto node = static_cast<std::int32_t>(nodes_.size());
        node_of_[Ordinal(action.stage, action.kind, action.offset)] = node;
        of_worker.push_back(node);
        nodes_.push_back({.seconds = times_.stages[action.stage].seconds(action.kind),
                          .worker = static_cast<int>(w),
                          .offset = action.offset});
      }
      AddLoop(of_worker);
    }
  }

  // The messages over each boundary, forwards and backwards, in the order of who sends them.
  void AddMessages() {
    for (const std::vector<SteadyAction>& actions : steady_.workers) {
      for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
        std::vector<std::vector<std::int64_t>> of_sender(static_cast<std::size_t>(steady_.stages));
        for (const SteadyAction& action : actions) {
          const int receiver = action.stage + (kind == ActionKind::kForward ? 1 : -1);
          if (action.kind != kind || receiver < 0 || receiver >= steady_.stages) continue;
          AddMessage(action, receiver, of_sender[action.stage]);
        }
        for (const std::vector<std::int64_t>& messages : of_sender) AddLoop(messages);
      }
    }
  }

  void AddMessage(const SteadyAction& action, int receiver, std::vector<std::int64_t>& messages) {
    const std::int64_t sender = node_of_[Ordinal(action.stage, action.kind, action.offset)];
    const std::int64_t target = node_of_[Ordinal(receiver, action.kind, action.offset)];
    const std::int64_t cycles =
        (action.offset - nodes_[target].offset) / steady_.microbatches_per_cycle;
    if (nodes_[sender].worker == nodes_[target].worker) {
      AddEdge(sender, target, 0, cycles);
      return;
    }
    const int boundary = std::min(action.stage, receiver);
    const double seconds = times_.message_seconds(boundary);
    if (seconds == 0) {
      AddEdge(sender, target, times_.latency(boundary), cycles);
      return;
    }
    const auto message = static_cast<std::int64_t>(nodes_.size());
    nodes_.push_back({.seconds = seconds, .boundary = boundary});
    AddEdge(sender, message, 0, 0);
    AddEdge(message, target, times_.latency(boundary), cycles);
    messages.push_back(message);
  }

  void SortEdges() {
    std::ranges::stable_sort(edges_, {}, &Edge::from);
    first_leaving_.assign(nodes_.size() + 1, 0);
    for (const Edge& edge : edges_) ++first_leaving_[static_cast<std::size_t>(edge.from) + 1];
    std::partial_sum(first_leaving_.begin(), first_leaving_.end(), first_leaving_.begin());
  }

  // Numbers nodes so that within a cycle each comes after all that it waits for, and edges by where
  // they leave.
  void Sort() {
    SortEdges();
    std::vector<std::int32_t> waits(nodes_.size());
    for (const Edge& edge : edges_) {
      if (edge.cycles == 0) ++waits[edge.to];
    }
    std::vector<std::size_t> order;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (waits[node] == 0) order.push_back(node);
    }
    for (std::size_t done = 0; done < order.size(); ++done) {
      for (std::size_t e = first_leaving_[order[done]]; e < first_leaving_[order[done] + 1]; ++e) {
        const auto to = static_cast<std::size_t>(edges_[e].to);
        if (edges_[e].cycles == 0 && --waits[to] == 0) order.push_back(to);
      }
    }
    std::vector<std::int32_t> number(nodes_.size());
    std::vector<Node> nodes;
    for (const std::size_t node : order) {
      number[node] = static_cast<std::int32_t>(nodes.size());
      nodes.push_back(nodes_[node]);
    }
    nodes_ = std::move(nodes);
    for (Edge& edge : edges_) {
      edge.from = number[edge.from];
      edge.to = number[edge.to];
    }
    SortEdges();
  }

  double StartBy(const Edge& edge, double period) const {
    return starts_[edge.from] + edge.weight - period * static_cast<double>(edge.cycles);
  }

  // Raises result.seconds to the largest ratio, with the circuit that has it.
  void Raise(CycleTime& result) {
    Sort();
    starts_.assign(nodes_.size(), 0);
    // At first everything waits for what its own worker or link did before.
    policy_.assign(nodes_.size(), -1);
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const Node& from = nodes_[edges_[e].from];
      const Node& to = nodes_[edges_[e].to];
      if (from.worker == to.worker && from.boundary == to.boundary) {
        policy_[edges_[e].to] = static_cast<std::int32_t>(e);
      }
    }
    std::size_t root = 0;
    const int worker = result.workers.empty() ? -1 : result.workers.front();
    while (nodes_[root].worker != worker || nodes_[root].boundary != result.boundary) ++root;
    for (bool has_root = true;; has_root = FindRoot(result, root)) {
      if (has_root) Evaluate(root, result.seconds);
      if (!Improve(result.seconds)) return;
    }
  }

  // The starts that the policy means, where it leads from the root.
  void Evaluate(std::size_t root, double period) {
    std::vector<std::size_t> reached = {root};
    for (std::size_t done = 0; done < reached.size(); ++done) {
      const std::size_t node = reached[done];
      for (std::size_t e = first_leaving_[node]; e < first_leaving_[node + 1]; ++e) {
        const auto to = static_cast<std::size_t>(edges_[e].to);
        if (policy_[to] != static_cast<std::int32_t>(e) || to == root) continue;
        starts_[to] = StartBy(edges_[e], period);
        reached.push_back(to);
      }
    }
  }

  // Lets every node wait for what lets it start last; whether any starts later for it.
  bool Improve(double period) {
    constexpr double kTolerance = 1e-12;  // of sums of many times
    bool improved = false;
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const auto to = static_cast<std::size_t>(edges_[e].to);
      const double start = StartBy(edges_[e], period);
      if (start <= starts_[to] + kTolerance * (period + std::abs(start))) continue;
      starts_[to] = start;
      policy_[to] = static_cast<std::int32_t>(e);
      improved = true;
    }
    return improved;
  }

  // The circuit of the policy with the largest ratio becomes the root's where it is above the period.
  // Whether there is such a circuit, or the root's is still one.
  bool FindRoot(CycleTime& result, std::size_t& root) const {
    std::vector<std::int32_t> seen(nodes_.size(), -1);
    const double period = result.seconds;
    std::size_t best = nodes_.size();
    bool root_stays = false;
    for (std::size_t start = 0; start < nodes_.size(); ++start) {
      std::size_t node = start;
      while (seen[node] < 0) {
        seen[node] = static_cast<std::int32_t>(start);
        node = static_cast<std::size_t>(edges_[policy_[node]].from);
      }
      if (seen[node] != static_cast<std::int32_t>(start)) continue;
      // Above the period, so that long circuits add little to little.
      double above = 0;
      std::int64_t cycles = 0;
      const std::size_t first = node;
      do {
        const Edge& edge = edges_[policy_[node]];
        above += edge.weight - period * static_cast<double>(edge.cycles);
        cycles += edge.cycles;
        root_stays = root_stays || node == root;
        node = static_cast<std::size_t>(edge.from);
      } while (node != first);
      const double ratio = period + above / static_cast<double>(cycles);
      if (ratio <= result.seconds) continue;
      result.seconds = ratio;
      result.circuit_cycles = cycles;
      best = first;
    }
    if (best == nodes_.size()) return root_stays;
    root = best;
    Describe(root, result);
    return true;
  }

  void Describe(std::size_t root, CycleTime& result) const {
    std::set<int> workers;
    int boundary = -1;
    std::size_t node = root;
    do {
      if (nodes_[node].worker >= 0) workers.insert(nodes_[node].worker);
      if (nodes_[node].boundary >= 0) boundary = nodes_[node].boundary;
      node = static_cast<std::size_t>(edges_[policy_[node]].from);
    } while (node != root);
    result.boundary = workers.empty() ? boundary : -1;
    result.workers.assign(workers.begin(), workers.end());
  }

  const SteadyState& steady_;
  const PipelineTimes& times_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> node_of_;       // by ordinal
  std::vector<std::size_t> first_leaving_;  // by node, of its edges
  std::vector<double> starts_;
  std::vector<std::int32_t> policy_;  // by node, the edge that it waits for
};

}  // namespace

CycleTime ComputeCycleTime(const SteadyState& steady, const PipelineTimes& times) {
  Validate(times, steady.stages);
  return EventGraph(steady, times).Solve();
}

}  // namespace batchless::hwmodel
