# frozen_string_literal: true

# slow: it starts the examples

require "test_helper"
require "tempfile"
require_relative "../../demo/back_end"
require_relative "../support/postgres"

# The programs in examples/ do what their first lines say, as a user would run them.
class ExamplesTest < Minitest::Test
  include NeverBlockTest::Helpers

  def test_fetch_many_keeps_the_order_and_goes_on_after_failures
    Demo::BackEnd.open(delay: 0.1) do |back_end|
      output, errors, status = run_example("fetch_many.rb", "--limit", "5", "--seconds", "5",
        *(1..12).map { |number| back_end.uri("/#{number}").to_s }, refused_url)
      assert_empty errors
      lines = output.lines(chomp: true)
      assert_equal (1..12).map { |number| "ok     #{back_end.uri("/#{number}")}: 200, #{"you asked for /#{number}".size} bytes" },
        lines.first(12)
      assert_match(/\AFAILED #{Regexp.escape(refused_url)}: .*refused/i, lines.last)
      assert_equal 1, status.exitstatus
      assert_operator back_end.stats["most_at_once"], :<=, 5
      assert_operator back_end.stats["most_at_once"], :>, 1
    end
  end

  def test_fetch_many_gives_up_on_a_slow_one_and_reads_standard_input
    Demo::BackEnd.open(delay: 0) do |back_end|
      urls = [back_end.uri("/slow?wait=30"), back_end.uri("/quick")]
      output, errors, status = run_example("fetch_many.rb", "--seconds", "3", input: urls.join("\n"))
      assert_empty errors
      assert_equal ["FAILED #{urls[0]}: no answer within 3.0 s", "ok     #{urls[1]}: 200, 20 bytes"], output.lines(chomp: true)
      refute status.success?
    end
  end

  def test_one_round_trip_answers_what_can_be_answered
    with_postgres do |postgres|
      output, errors, status = run_example("one_round_trip.rb", postgres.url)
      assert_empty errors
      assert_equal [0, "show server_version: #{postgres.query("show server_version")}"], [status.exitstatus, output.lines(chomp: true).first]
      output, errors, status = run_example("one_round_trip.rb", postgres.url, "select 1", "select 1/0", "select 3")
      assert_empty errors
      assert_equal [1, ["select 1: 1", "select 1/0: FAILED ERROR:  division by zero", "select 3: 3"]], [status.exitstatus, output.lines(chomp: true)]
    end
  end

  def test_shared_connections_gives_no_response_to_another_task
    Demo::BackEnd.open(delay: 0.1) do |back_end|
      output = output_of("shared_connections.rb", back_end.uri("/").to_s)
      assert_match(/\A20 tasks, 5 connections opened, 1 closed in the middle of a response, \d+ waits\n\z/, output)
    end
  end

  def test_who_holds_names_the_holders
    with_postgres do |postgres|
      output = output_of("who_holds.rb", postgres.url)
      assert_match(/\A3 connections: .* leased, .*; 1 waited in vain$/, output)
      assert_match(/^checkout \(leased\) since \d\.\d+ s: select 'an order', at .*who_holds\.rb:\d+$/, output)
      assert_match(/^no connection was free within 2 s: \d of 3 are held \(.*\(checkout\)/, output)
    end
  end

  def test_all_shards_asks_each_and_the_first_with_rows_wins
    with_postgres do |postgres|
      %w[eu us].each { |name| postgres.query("create database #{name}") }
      shards = %w[eu us].map { |name| "#{name}=#{postgres.url(name)}" }
      dead = "dead=#{refused_url.sub("http", "postgresql")}"
      assert_equal ["eu: eu\nus: us\n", "", true], all_shards("select current_database()", *shards)
      output, errors, success = all_shards("select current_database()", *shards.insert(1, dead))
      assert_equal [["eu: eu", "us: us"], "", false], [output.lines(chomp: true).values_at(0, 2), errors, success]
      assert_match(/^dead: FAILED .*refused/, output)
      mine = "select 1 where current_database() = 'us' or (current_database() = 'eu' and pg_sleep(60) is null)"
      assert_equal ["us: 1\n", "", true], all_shards("--first", mine, *shards)
      output, errors, success = all_shards("--first", "select 1 where false", *shards)
      assert_equal ["", false], [output, success]
      assert_match(/\Aall_shards\.rb: Shards\.first: 1 of 3 shards failed: "dead": .*refused/, errors)
    end
  end

  def test_word_counts_counts_the_words_of_each_file
    files = ["b a b\nc b a\n", "only, only; ONLY!\n"].map { |text| Tempfile.create("words with a blank").tap { |file| file << text }.tap(&:close).path }
    output = output_of("word_counts.rb", "--top", "2", *files)
    assert_equal ["#{files[0]}: b 3, a 2", "#{files[1]}: only 2, ONLY 1"], output.lines(chomp: true)
  ensure
    files&.each { |file| File.delete(file) }
  end

  def test_word_counts_says_which_file_is_missing
    output, errors, status = run_example("word_counts.rb", "no-such-file")
    assert_empty output
    assert_match(/no-such-file/, errors)
    refute status.success?
  end

  def test_batches_are_written_when_full_and_when_nothing_comes
    command = ["batches.rb", "--size", "3", "--wait", "0.2"]
    popen_example(*command) do |input, output|
      input.write("1\n2\n3\n4\n") # at once, so that no wait ends between two of them
      assert_equal "wrote 3: 1..3\n", gets(output)
      assert_equal "wrote 1: 4..4\n", gets(output), "a batch that is not full is written after a while"
      input.puts(5)
      input.close
      assert_equal "wrote 1: 5..5\n", gets(output)
      assert_equal "5 lines in all\n", gets(output)
    end
  end

  def test_batches_loses_nothing_between_several_consumers
    output, errors, = run_example("batches.rb", "--size", "7", "--wait", "0.1", "--consumers", "4", input: (1..1000).to_a.join("\n"))
    assert_empty errors
    assert_equal "1000 lines in all", output.lines(chomp: true).last
    assert_equal 1000, output.scan(/^wrote (\d+)/).flatten.sum(&:to_i)
  end

  def test_fastest_takes_the_first_good_answer
    Demo::BackEnd.open(delay: 0.1) do |back_end|
      near, far = back_end.uri("/near").to_s, back_end.uri("/far?wait=25").to_s
      output = output_of("fastest.rb", far, refused_url, near)
      assert_equal "#{near} was first: you asked for /near\n", output
    end
  end

  def test_fastest_says_when_no_server_answers
    output, errors, status = run_example("fastest.rb", refused_url)
    assert_empty output
    assert_match(/no server gave a good answer.*refused/i, errors)
    assert_equal 1, status.exitstatus
  end

  private

  def all_shards(...)
    output, errors, status = run_example("all_shards.rb", ...)
    [output, errors, status.success?]
  end

  def with_postgres(&)
    reason = NeverBlockTest::PostgresServer.missing || ("pg is not among the gems here" unless Gem.loaded_specs.key?("pg"))
    skip reason if reason
    NeverBlockTest::PostgresServer.open(&)
  end

  # @return [String] of an example that succeeds without an error message
  def output_of(...)
    output, errors, status = run_example(...)
    assert_empty errors
    assert_predicate status, :success?
    output
  end

  # Nothing listens there.
  def refused_url = @refused_url ||= "http://127.0.0.1:#{NeverBlockTest::Peer.free_port}/"

  def run_example(file, *arguments, input: "")
    popen_example(file, *arguments) do |stdin, stdout, stderr, process|
      readers = [stdout, stderr].map { |io| Thread.new { io.read } }
      stdin.write(input)
      stdin.close
      flunk "#{file} ran longer than #{NeverBlockTest::LIMIT} s" unless process.join(NeverBlockTest::LIMIT)
      [*readers.map(&:value), process.value]
    end
  end

  def popen_example(file, *arguments)
    path = File.join(NeverBlockTest::ROOT, "examples", file)
    Open3.popen3(RbConfig.ruby, "-w", "-I#{File.join(NeverBlockTest::ROOT, "lib")}", path, *arguments) do |*streams, process|
      yield(*streams, process)
    ensure
      Process.kill(:KILL, process.pid) if process.alive? && !process.join(5)
    end
  end

  def gets(output)
    flunk "nothing was printed within #{NeverBlockTest::LIMIT} s" unless output.wait_readable(NeverBlockTest::LIMIT)
    output.gets
  end
end
