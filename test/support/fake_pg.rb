# frozen_string_literal: true

require "pg"
require "socket"

module NeverBlockTest
  # A PG::Connection without a server, for unit tests. The block is the server: it gets each SQL text and returns its
  # result. Without a block a statement waits for {#answer}.
  #
  #   pg = FakePg.new { |sql| FakePg.ok(sql[/\w+/]) }
  #   connection = NeverBlock::Postgres::PipelinedConnection.new(pg, defaults, owner)
  #   pg.sent      # => ["select 1"]
  #
  # Its socket is real, so that fibers can wait for it.
  class FakePg
    # The part of a PG::Result that the library uses.
    Result = Struct.new(:result_status, :cmd_status, :state, :error_message) do
      def clear = nil

      def values = []

      def ntuples = cmd_status.to_s[/\d+\z/].to_i

      def error_field(field) = (state if field == PG::PG_DIAG_SQLSTATE)

      def check
        raise PG::ServerError.new(error_message, result: self) if state
        self
      end
    end
    SYNC = Result.new(PG::PGRES_PIPELINE_SYNC)
    private_constant :SYNC

    # @param tag [String] such as "SELECT 1"
    def self.ok(tag = "SELECT 1") = Result.new(PG::PGRES_TUPLES_OK, tag)

    # @param state [String] SQLSTATE
    def self.error(state, message = "it failed") = Result.new(PG::PGRES_FATAL_ERROR, nil, state, message)

    # @return [Array<String>] sent SQL texts, and "cancel"
    attr_reader :sent
    # @param value [Integer] PG::PQTRANS_…, the status between statements
    attr_writer :transaction_status
    # @return [Hash{String=>String}] parameters that the server reports
    attr_reader :parameters
    attr_reader :socket_io, :pipeline_status, :status

    # @yieldparam sql [String]
    # @yieldreturn [Result, nil] nil: {#answer} gives it later
    def initialize(&server)
      @server = server
      @socket_io, @peer = UNIXSocket.pair
      @sent, @group, @waiting, @arriving, @read = [], [], [], [], []
      @parameters = {"TimeZone" => "UTC"}
      @transaction_status = PG::PQTRANS_IDLE
      @pipeline_status = PG::PQ_PIPELINE_OFF
      @status = PG::CONNECTION_OK
    end

    # Answers the oldest statement that has no answer yet.
    # @param result [Result]
    def answer(result = FakePg.ok)
      steps = @waiting.shift || raise("no statement waits")
      steps.each { |step| @arriving.push((step == :run) ? result : FakePg.ok("PREPARE"), nil) }
      @arriving << SYNC unless plain?
      @peer << "x"
    end

    # @return [Integer] PG::PQTRANS_…
    def transaction_status = [@waiting, @arriving, @read].all?(&:empty?) ? @transaction_status : PG::PQTRANS_ACTIVE

    # @return [Integer] statements without an answer
    def waiting = @waiting.size

    # The server ends the connection.
    def hang_up = @peer.close

    def close
      @finished = true
      @status = PG::CONNECTION_BAD
      @socket_io.close
    end

    def finished? = @finished || false

    def cancel
      @sent << "cancel"
      answer(FakePg.error("57014", "canceling statement")) if @waiting.any?
      nil
    end

    def discard_results = @sent << "discard_results"

    def exec(sql) = @sent << sql

    def parameter_status(name) = @parameters[name]

    def backend_pid = 7

    def error_message = "the fake is closed"

    def set_notice_receiver = nil

    def sync_setnonblocking(_) = nil

    def setnonblocking(_) = nil

    def enter_pipeline_mode = @pipeline_status = PG::PQ_PIPELINE_ON

    def exit_pipeline_mode = @pipeline_status = PG::PQ_PIPELINE_OFF

    def send_prepare(_name, sql, _types = nil)
      @sent << "prepare #{sql}"
      @group << :prepare
    end

    def send_query_params(sql, *)
      @sent << sql
      @group << :run
      send_pipeline_sync if plain?
    end

    # One statement, out of pipeline mode.
    def send_query(sql)
      raise ArgumentError, "#{sql.inspect} has several statements" if sql.include?(";")
      send_query_params(sql)
    end

    def send_query_prepared(name, *) = send_query_params("execute #{name}")

    def send_pipeline_sync
      @waiting << @group
      @group = []
      result = @server&.call(@sent.last) and answer(result)
    end
    alias_method :sync_pipeline_sync, :send_pipeline_sync

    def sync_flush = true

    def consume_input
      raise PG::ConnectionBad, "the server closed the connection" if @socket_io.read_nonblock(100, exception: false).nil?
      @read.concat(@arriving)
      @arriving.clear
    end

    def is_busy = @read.empty?

    def sync_get_result = @read.shift

    # For use outside of pipeline mode.
    def async_get_last_result
      @socket_io.wait_readable
      consume_input
      @read.shift(@read.size).compact.last&.check
    end

    private

    def plain? = @pipeline_status == PG::PQ_PIPELINE_OFF

    def flush_data=(_)
    end
  end
end
