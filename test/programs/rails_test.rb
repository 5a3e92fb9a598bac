# frozen_string_literal: true

# slow: it starts Rails

require "test_helper"
require "support/rails_app"
require "support/web_socket"
require "digest"
require "json"
require "net/http"
require "tempfile"

# A Rails app, made by its own generator, on `bin/rails server` in development: only its Gemfile and its database.yml
# mention NeverBlock. bin/test --long does it with every supported Rails.
class RailsTest < Minitest::Test
  class << self
    # One server for all tests.
    def served
      @served ||= begin
        @app = nil
        started = Queue.new
        @done = Queue.new
        @keeper = Thread.new do
          NeverBlockTest::RailsApp.open do |app|
            app.run("bin/rails", "active_storage:install")
            app.run("bin/rails", "db:prepare")
            app.serve { |served| started.push([app, served]) && @done.pop }
          end
        rescue Exception => error # standard:disable Lint/RescueException -- the tests raise it
          started << error
        end
        started.pop.tap { |value| raise value if Exception === value }
      end
    end

    def stop
      return unless @keeper
      @done << true
      @keeper.join
    end
  end
  Minitest.after_run { stop }

  def setup
    reason = NeverBlockTest::RailsApp.missing and skip reason
    @app, @served = self.class.served
  end

  def test_ten_queries_sleep_at_the_same_time
    get("/sleep?seconds=0.01") # loads the app
    asleep = 0
    [3, 10, 25].each do |seconds| # on a busy machine the first may have ended when the last begins
      requests = Array.new(10) { Thread.new { get("/sleep?seconds=#{seconds}") } }
      asleep = [asleep, asleep_for(seconds)].max while asleep < 10 && requests.any?(&:alive?)
      assert_equal ["slept"] * 10, requests.map(&:value)
      break if asleep == 10
    end
    assert_equal 10, asleep, "a pool of five lets five sleep"
  end

  def test_current_attributes_belong_to_one_visitor
    names = Array.new(40) { |number| "visitor-#{number}" }
    answers = at_once(names) { |name| get("/current?name=#{name}") }
    assert_equal names.map { |name| "#{name} #{name}" }, answers
  end

  def test_sessions
    counts = at_once(8) do
      cookie = nil
      Array.new(3) do
        answer = request(Net::HTTP::Get.new("/count", cookie ? {"Cookie" => cookie} : {}))
        cookie = answer["set-cookie"][/\A[^;]+/]
        answer.body
      end
    end
    assert_equal [%w[1 2 3]] * 8, counts
  end

  def test_records_and_their_types
    title = "a note #{rand}"
    assert_equal 303, post("/notes", title:).code.to_i
    note = JSON.parse(get("/notes.json")).find { |one| one["title"] == title }
    assert_equal({"length" => title.size}, note["details"])
    assert_includes get("/notes"), title
    assert_equal 422, post("/notes", title: "").code.to_i
    assert_equal 404, request(Net::HTTP::Get.new("/notes/0")).code.to_i
  end

  # Streaming clients send forms and JSON in chunks.
  def test_parameters_in_chunks
    title = "in chunks #{rand}"
    {"application/x-www-form-urlencoded" => URI.encode_www_form(title:), "application/json" => {title:}.to_json}.each do |type, content|
      post = Net::HTTP::Post.new("/notes", {"Content-Type" => type, "Transfer-Encoding" => "chunked", "Accept" => "text/html"})
      post.body_stream = StringIO.new(content)
      assert_equal 303, request(post).code.to_i, type
    end
    assert_equal 2, JSON.parse(get("/notes.json")).count { |one| one["title"] == title }
  end

  def test_turbo_streams
    stream = request(Net::HTTP::Post.new("/notes", {"Accept" => "text/vnd.turbo-stream.html"}).tap { |post| post.set_form_data(title: "<b>") })
    assert_equal "text/vnd.turbo-stream.html", stream.content_type
    assert_match(%r{<turbo-stream action="append" target="notes"><template>.*<li>&lt;b&gt;</li>.*</template></turbo-stream>}m, stream.body)
  end

  def test_an_error_is_answered_and_the_next_request_is_well
    failure = request(Net::HTTP::Get.new("/fail"))
    assert_equal 500, failure.code.to_i
    assert_match(/RuntimeError.*no/m, failure.body)
    assert_equal "fast", get("/fast")
  end

  def test_uploads_and_downloads_with_active_storage
    bytes = Random.new(1).bytes(3 << 20)
    Tempfile.create(["a", ".bin"], binmode: true) do |file|
      file.write(bytes)
      file.rewind
      post = Net::HTTP::Post.new("/pictures")
      post.set_form([["file", file]], "multipart/form-data")
      answer = JSON.parse(request(post).body)
      assert_equal bytes.bytesize, answer["bytes"]
      place = request(Net::HTTP::Get.new(answer["url"]))["location"]
      assert_equal Digest::SHA256.hexdigest(bytes), Digest::SHA256.hexdigest(get(URI(place).request_uri))
    end
  end

  def test_live_actions_are_fibers_with_the_state_of_their_request
    answers = at_once(%w[ann bob cat dan]) { |name| [name, get("/live?name=#{name}")] }
    answers.each do |name, body|
      events = body.scan(/^data: (.*)$/).map { |data,| JSON.parse(data) }
      assert_equal [0, 1, 2], events.map { |event| event["count"] }
      assert_equal [[name, true]], events.map { |event| event.values_at("visitor", "fiber") }.uniq
    end
  end

  def test_a_live_action_ends_when_its_client_leaves
    TCPSocket.open("127.0.0.1", @served.port) do |socket|
      socket << "GET /live/endless HTTP/1.1\r\nHost: localhost\r\n\r\n"
      assert socket.gets
    end
    @served.until_true("its end") { @app.read("log/development.log").include?("the client of a live stream has left") }
  end

  def test_a_live_action_that_fails_ends_its_answer_alone
    answer = request(Net::HTTP::Get.new("/live/failing"))
    assert_includes answer.body, "begun"
    assert_equal "fast", get("/fast")
    assert_match(/amid a stream/, @app.read("log/development.log"))
  end

  def test_action_cable_over_a_hijacked_connection
    sockets = Array.new(2) { NeverBlockTest::WebSocket.new(@served.port, "/cable", origin: "http://localhost:#{@served.port}") }
    identifier = {channel: "ChatChannel"}.to_json
    sockets.each do |socket|
      socket.until { |message| message["type"] == "welcome" }
      socket.send(command: "subscribe", identifier:)
      socket.until { |message| message["type"] == "confirm_subscription" }
    end
    sockets.first.send(command: "message", identifier:, data: {action: "speak", text: "hi"}.to_json)
    sockets.each { |socket| assert_equal "hi", socket.until { |message| message["message"].is_a?(Hash) }.dig("message", "text") }
  ensure
    sockets&.each(&:close)
  end

  def test_a_statement_that_was_timed_out_is_given_up_and_its_connection_goes_on
    assert_equal ["an answer of its own"] * 12, at_once(12) { get("/interrupted") }
    sleeping = nil
    @served.until_true("the end of the statements") do
      sleeping = @app.postgres.query("select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep(600)%' and pid <> pg_backend_pid()")
      sleeping == "0"
    end
  end

  def test_a_transaction_that_is_timed_out_is_rolled_back
    assert_equal "complete thrown", get("/timed_out")
  end

  def test_waits_for_the_pool_are_told_with_the_remedy
    line = @served.until_true("its line") do # a busy machine may not start thirteen at a time
      assert_equal ["held"] * 30, at_once(30) { get("/held?seconds=0.2") }
      @app.read("log/development.log")[/neverblock: a request waited .*/]
    end
    assert_match(/the pool "primary", which has 12.*(raise connections: in config\/database.yml.*Transactions that wait|the processor is the bottleneck)/, line)
  end

  def test_the_log_names_the_server_and_the_applied_patches
    @served.until_true("its line") { @served.output.match?(/^=> Booting NeverBlock$/) }
    assert_equal 1, @served.output.scan("Booting").size, "the process that begins anew says nothing"
    log = @app.read("log/development.log")
    refute_match(/neverblock: patch \w+:/, log, "one line has them all")
    assert_match(/neverblock: patches for this Rails: .*\blive\b.*skip_patches/, log)
    refute_match(/neverblock: the gem/, log)
    refute_match(/stack_depth|have stacks of/, @served.errors)
  end

  private

  # @return [Integer] queries that sleep for so many seconds now
  def asleep_for(seconds)
    @app.postgres.query("select count(*) from pg_stat_activity where wait_event = 'PgSleep' and query like '%pg_sleep(#{seconds}.0)%'").to_i
  end

  def at_once(list, &block)
    ((Integer === list) ? Array.new(list) : list).map { |one| Thread.new(one, &block) }.map(&:value)
  end

  def get(path) = request(Net::HTTP::Get.new(path)).body

  def post(path, form) = request(Net::HTTP::Post.new(path).tap { |post| post.set_form_data(form) })

  def request(request) = Net::HTTP.start("localhost", @served.port, read_timeout: 60) { |http| http.request(request) }
end
