# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/loops"
require "support/virtual_time"
require "neverblock/server"
require "neverblock/server/cluster/deployment"
require "neverblock/server/cluster/supervisor"

# A deployment, step by step: what is asked of the templates and the workers, and what is told of it.
class ClusterDeploymentTest < Minitest::Test
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  # Notes what is done to it and to its parts.
  class Supervisor
    attr_reader :log
    attr_accessor :draining
    alias_method :draining?, :draining

    def initialize = @log = []

    def spawn(name, &) = NB.spawn(name:, &)

    def say(message, as: :info) = @log << [as, message]

    def on(*event) = @log << event

    def binder = :binder

    def directory = "/srv/shop"

    def held = {pid_file: "/run/shop.pid"}

    def waiting = nil

    %i[sidecars loads endpoints].each { |name| define_method(name) { Part.new(name, @log) } }
  end

  Part = Struct.new(:name, :log) do
    def method_missing(action, *arguments) = log << [name, action, *arguments]

    def respond_to_missing?(*) = true
  end

  Templates = Struct.new(:log, :coming, :present, :all) do
    def load(binder)
      log << [:load, binder]
      (Exception === coming) ? raise(coming) : coming
    end

    def present? = !present.nil?

    def dismiss_others = log << [:dismiss_others]
  end

  Template = Struct.new(:failures, :signals, :ended) do
    alias_method :ended?, :ended

    def to_s = "template [7]"

    def rehearse(_held) = failures

    def signal(name) = signals << name
  end

  Workers = Struct.new(:moved, :slots) do
    def all = []

    def replace(_template) = moved
  end

  Systemd = Struct.new(:told) do
    def tell(*lines) = told.concat(lines)
  end

  def setup
    @supervisor = Supervisor.new
    @templates = Templates.new(@supervisor.log)
    @workers = Workers.new(2, [1, 2])
    @systemd = Systemd.new([])
    @deployment = NeverBlock::Server::Cluster::Deployment.new(@supervisor, @templates, @workers, :launch, @systemd)
  end

  def test_the_first_load_is_announced_to_none
    @templates.coming = :template
    done { @deployment.load }
    assert_equal [[:loads, :begin], [:load, :binder], ["app loaded", :template]], log
    assert_empty @systemd.told
  end

  def test_another_load_is_announced
    @templates.present, @templates.coming = :old, :template
    done { @deployment.load }
    assert_equal [:info, "loading the app again, in /srv/shop"], log.first
    assert_equal "RELOADING=1", @systemd.told.first
    assert_match(/\AMONOTONIC_USEC=\d+\z/, @systemd.told.last)
  end

  def test_a_load_that_fails
    @templates.coming = error = NeverBlock::Server::AppError.new("no way")
    done { @deployment.load }
    assert_equal ["load failed", error], log.last
  end

  def test_the_first_template_begins_to_serve
    @deployment.begin_serving(:template)
    assert_equal [:template, [[:sidecars, :start]]], [@templates.present, log]
  end

  def test_all_workers_are_replaced
    done { @deployment.replace_workers(:template) }
    assert_equal :template, @templates.present
    assert_equal [[:dismiss_others], [:sidecars, :restart], [:info, "2 of 2 workers have been replaced"], ["workers replaced", 2, 2]], log
  end

  def test_a_program_that_succeeds_replaces_them_too
    @workers.moved = 1
    done { @deployment.succeed(:template) }
    assert_equal [[:loads, :begin], [:sidecars, :start], [:dismiss_others], [:error, "1 of 2 workers have been replaced"], ["workers replaced", 1, 2]], log
  end

  def test_the_result_is_told
    @templates.present = :template
    @deployment.settle(2, 2)
    @deployment.settle(1, 2)
    assert_equal [[:loads, :over, :loaded, "2 of 2 workers have been replaced"],
      [:loads, :over, :failed, "1 of 2 workers have been replaced; the error log tells why"]], log
    assert_equal ["READY=1"] * 2, @systemd.told
  end

  def test_a_template_that_has_ended_meanwhile_is_noticed
    @deployment.settle(2, 2)
    assert_equal ["template ended"], log.last
  end

  def test_the_old_workers_go_on_if_the_app_can_not_be_loaded
    @templates.present = :old
    done { @deployment.keep_old(NeverBlock::Server::AppError.new("no way")) }
    words = "the app can't be loaded again; the old one stays: no way"
    assert_equal [[:error, words], [:loads, :over, :failed, words]], log
    assert_equal ["READY=1"], @systemd.told
  end

  # No template is left, so no worker could be started: it is tried again.
  def test_another_attempt_follows_where_no_template_is_left
    done { @deployment.keep_old(NeverBlock::Server::AppError.new("no way")) }
    assert_equal [["template ended"], 0.5], [log.last, clock.elapsed]
  end

  def test_a_template_that_is_not_needed_is_killed
    template = Template.new([], [])
    @deployment.discard(template)
    assert_equal [:KILL], template.signals
  end

  def test_a_program_that_could_not_start_is_not_made_way_for
    template = Template.new(["the pid file can't be written", "the control socket is taken"], [])
    done { @deployment.hand_over(template) }
    event, error = log.last
    assert_equal ["handover failed", "the pid file can't be written; the control socket is taken", [:KILL]], [event, error.message, template.signals]
  end

  def test_a_signal_during_the_rehearsal_goes_first
    @supervisor.draining = true
    done { @deployment.hand_over(Template.new([], [])) }
    assert_empty log
  end

  def test_a_program_that_can_not_be_started_leaves_this_one_as_it_was
    template = Template.new([], [])
    failing = ->(*) { raise Errno::ENOENT, "/srv/shop" }
    NeverBlock::Server::Cluster::Handover.stub(:pass_on, failing) { done { @deployment.hand_over(template) } }
    assert_equal [[:info, "the supervisor makes way for a new one"], [:sidecars, :stop], [:loads, :pass_on], [:endpoints, :stop]], log.first(4)
    assert_equal ["handover failed", [:sidecars, :start], [:endpoints, :start]], [log[4].first, *log.last(2)]
    assert_equal [:KILL], template.signals
  end

  # Its channel is closed, which has no descriptor to pass on. It is listed until its exit status is known.
  def test_a_template_that_was_killed_is_not_passed_on
    old, killed, new = Template.new([], [1]), Template.new([], [2], true), Template.new([], [])
    @templates.all = [old, killed, new]
    assert_equal [[old, new], [], nil], passed_on(new)
  end

  def test_a_new_template_that_was_killed_is_not_made_way_for
    @templates.all = [template = Template.new([], [], true)]
    assert_nil passed_on(template)
    assert_equal "template [7] ended", log.assoc("handover failed")&.last&.message
    assert_equal [[:sidecars, :start], [:endpoints, :start]], log.last(2)
  end

  private

  # @return [Array, nil] what the next program would be given
  def passed_on(template)
    given = nil
    receive = ->(*, &left) { given = left.call }
    NeverBlock::Server::Cluster::Handover.stub(:pass_on, receive) { done { @deployment.hand_over(template) } }
    given
  end

  def log = @supervisor.log

  # With all tasks that it has begun.
  def done(&) = in_loop(&)
end
