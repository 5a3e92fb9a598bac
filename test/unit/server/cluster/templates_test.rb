# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/loops"
require "neverblock/server"
require "neverblock/server/cluster/templates"
require "neverblock/server/cluster/channel"

# Which template forks, what becomes of the others, and why one could not load the app. The other ends of their channels
# stand for them, and programs that sleep for their processes.
class ClusterTemplatesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  Cluster = NeverBlock::Server::Cluster

  # Stands for the Supervisor.
  class Supervisor
    attr_reader :ended

    def initialize = @ended = []

    def spawn(name, &) = NB.spawn(name:, &)

    def directory = "/srv/shop"

    def template_said(template, message)
      case message[:event]
      when "loaded" then template.ready!
      when "failed" then template.failure = message[:message]
      end
    end

    def template_ended(template) = @ended << template
  end

  Binder = Struct.new(:sockets, :addresses)

  def setup
    @supervisor, @pids = Supervisor.new, []
  end

  def teardown
    @pids.each do |pid|
      Process.kill(:KILL, pid)
    rescue Errno::ESRCH
      nil # it has ended
    end
  end

  def test_a_template_that_has_loaded_the_app
    templates do |all|
      loading = NB.spawn { load(all) }
      other = starting(1)
      other.send({event: "loaded"})
      template = loading.value
      assert_equal [true, [template], nil, false], [template.ready?, all.all, all.present, all.present?]
      waiting = NB.spawn { all.wait }
      all.present = template
      assert_equal({do: "reopen"}, other.receive.first)
      assert_equal [template, true], [waiting.value, all.present?]
      other.close
      pass_until("its end") { all.all.empty? }
      assert_equal [[template], template, false], [@supervisor.ended, all.present, all.present?]
    end
  end

  def test_the_reason_is_the_one_that_it_tells
    templates do |all|
      loading = NB.spawn { load(all) }
      starting(1).send({event: "failed", message: "no way"})
      @others.last.close
      assert_equal "no way", outcome(loading).message
      assert_kind_of NeverBlock::Server::AppError, outcome(loading)
    end
  end

  def test_one_that_ends_without_a_word
    templates("exit 3") do |all|
      loading = NB.spawn { load(all) }
      other = starting(1)
      pass_until("its end") { all.all.first.status }
      other.close
      assert_equal "its process has ended (pid #{@pids.last} exit 3) before the app was loaded, without a reason; see standard error", outcome(loading).message
    end
  end

  def test_one_that_takes_too_long_is_killed
    templates(timeout: 0.01) do |all|
      loading = NB.spawn { load(all) }
      starting(1)
      assert_equal "the app in /srv/shop was not loaded within 0.01 s (boot_timeout)", outcome(loading).message
      pass_until("its end") { all.all.first&.status.to_s.include?("SIGKILL") }
    end
  end

  def test_one_that_can_not_be_started
    templates do |all|
      Cluster::TemplateProcess.stub(:start, ->(*) { raise Errno::ENOENT, "/srv/shop" }) do
        error = assert_raises(NeverBlock::Server::AppError) { all.load(Binder.new([], [])) }
        assert_equal "its process can't be started: No such file or directory - /srv/shop", error.message
      end
    end
  end

  def test_the_others_are_dismissed
    templates do |all|
      first, second = Array.new(2) { |n| NB.spawn { load(all) }.then { |loading| starting(n + 1).send({event: "loaded"}) && loading.value } }
      all.present = second
      all.dismiss_others
      assert_equal [{do: "end"}, {do: "reopen"}], @others.map { |other| other.receive.first }
      assert_equal [first, second], all.all
      all.dismiss_all
      assert_equal [{do: "end"}] * 2, @others.map { |other| other.receive.first }
      @others.each(&:close)
      all.wait_end
      assert_empty all.all
    end
  end

  def test_those_that_load_are_given_up
    templates do |all|
      NB.spawn { load(all) }.then { |loading| starting(1).send({event: "loaded"}) && loading.value }
      late = NB.spawn { load(all) }
      starting(2)
      all.give_up_loading
      pass_until("the end of that one") { all.all.last.status }
      assert_nil all.all.first.status
      @others.last.close
      assert_match(/SIGKILL/, outcome(late).message)
    end
  end

  private

  # @param program [String] what each template's process does
  def templates(program = "sleep", timeout: 60)
    @program, @others = program, []
    in_loop(exit: :cancel) { yield Cluster::Templates.new(@supervisor, :launch, timeout) }
  end

  # Its process is a program that the test names, and its channel one of the test's.
  def load(templates)
    start = lambda do |_sockets, _launch|
      ours, other = Cluster::Channel.pair
      @pids << Process.spawn(RbConfig.ruby, "--disable=gems", "-e", @program)
      @others << other
      Cluster::TemplateProcess.new(ours).tap { |template| template.pid = @pids.last }
    end
    Cluster::TemplateProcess.stub(:start, start) { templates.load(Binder.new([], [])) }
  end

  # @return [Channel] the last one's
  def starting(count)
    pass_until("template #{count}") { @others.size == count }
    @others.last
  end
end
