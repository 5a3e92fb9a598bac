# frozen_string_literal: true

module NeverBlockPumaFuzz
  # The differences between what two servers have sent in a conversation.
  #
  #   Comparison.new(conversation, ours, puma).differences       # => [#<struct Difference …>]
  #
  # The answers are compared one by one, as far as both servers have read the same requests and ended their responses
  # alike. A request that both refuse is the same, though one may find another fault first.
  class Comparison
    # @!attribute kind
    # @return [Symbol] :refusal, :missing, :interim, :status, :framing, :field, :body, :env (a line of Apps::Echo),
    #   :rails (a line of Apps::Rails), or :ending
    # @!attribute key
    # @return [String, nil] of a line or a field
    # @!attribute ours
    # @return [Object, nil] nil: not there. A refusal is a status and a text
    # @!attribute puma
    # @return [Object, nil]
    # @!attribute conversation
    # @return [Conversation]
    # @!attribute request
    # @return [String] the first line of the request, if an app was told of it
    Difference = Struct.new(:kind, :key, :ours, :puma, :conversation, :request) do
      def to_s = "#{[kind, key].compact.join(" ")}: ours #{shown(ours)}, Puma's #{shown(puma)}#{" (#{request})" unless request.empty?}"

      def http10? = request.end_with?(" HTTP/1.0")

      def head? = request.start_with?("HEAD ")

      # Whether the query for Apps::Respond has this.
      def asks?(word) = request.include?(word)

      # Whether the client has sent this, in any request.
      def sent?(pattern) = conversation.bytes.match?(pattern)

      # Whether the client has sent this in a Connection field with more than one element, or in one of several fields.
      def lists?(word)
        fields = conversation.bytes.scan(/^Connection:[^\r\n]*/ni)
        fields.any? { |field| field.match?(/#{word}/ni) && (fields.size > 1 || field.include?(",")) }
      end

      # Whether our field has this more than Puma's.
      def adds?(value) = ours.to_a.include?(value) && ours - [value] == puma.to_a

      # Whether we have refused so; an answer to HEAD has no text.
      def refused?(status, text) = [[status, text], [status, ""]].include?(ours)

      # Differences of one kind, whatever the values are.
      def signature = [kind, (kind == :refusal) ? [ours, puma] : key]

      private

      def shown(value) = value.inspect.then { |text| (text.size > 500) ? "#{text[0, 500]}…" : text }
    end

    ENDS = %i[framing complete body].freeze
    LINES = /\A"((?:[^"\\]|\\.)*)" (.*)\z/mn
    private_constant :ENDS, :LINES

    # @param ours [Client::Outcome]
    # @param puma [Client::Outcome]
    def initialize(conversation, ours, puma)
      @conversation = conversation
      @ours = ours
      @puma = puma
      @found = []
    end

    # @return [Array<Difference>]
    def differences
      all = pairs
      compared = all.index { |ours, puma| !compare(ours, puma) } || all.size - 1
      add(:after_close, nil, *all[compared + 1].map { |answers| answers&.size }) if @closed && all[compared + 1]&.first
      add(:ending, nil, @ours.ending, @puma.ending) if (@ours.ending == :reset && @puma.ending == :closed) || [@ours, @puma].any? { |one| one.ending == :hanging }
      @found
    end

    private

    # Each is the interim answers and a final one.
    # @return [Array<Array(Array, Array)>]
    def pairs
      ours, puma = [@ours, @puma].map { |outcome| outcome.answers.slice_when { |before, _| String === before || !before.interim? }.to_a }
      Array.new([ours.size, puma.size].max) { |place| [ours[place], puma[place]] }
    end

    # @return [Boolean] whether what follows can be compared
    def compare(ours, puma)
      interims = [ours, puma]
      ours, puma = interims.map { |answers| answers&.last unless Answers::Answer === answers&.last && answers.last.interim? }
      @request = [ours, puma].grep(Answers::Answer).filter_map(&:request).first || ([ours, puma].any?(String) ? @request : "")
      compare_interims(*interims) if [ours, puma].all? { |answer| Answers::Answer === answer && answer.apps? }
      return compare_bytes(ours, puma) if [ours, puma].any?(String)
      return compare_presence(ours, puma) unless ours && puma
      return false if @puma.ending == :reset && !puma.complete
      return compare_refusals(ours, puma) unless ours.apps? && puma.apps?
      compare_responses(ours, puma)
      @closed = ours["connection"].to_s.match?(/close/)
      !@closed && @found.none? { |difference| ENDS.include?(difference.kind) || difference.key == "connection" }
    end

    def add(kind, key, ours, puma)
      @found << Difference.new(kind, key, ours, puma, @conversation, @request.to_s)
    end

    def compare_interims(ours, puma)
      ours, puma = [ours, puma].map { |answers| Array(answers).grep(Answers::Answer).select(&:interim?).map { |answer| [answer.status, answer.fields] } }
      (ours | puma).each { |one| add(:interim, one.first.to_s, *[ours, puma].map { |all| all.include?(one) ? one.last : nil }) if ours.count(one) != puma.count(one) }
    end

    def compare_bytes(ours, puma)
      add(:bytes, nil, ours, puma) unless ours == puma
      false
    end

    # Puma resets connections when it has not read all, and its last answer may be lost with that.
    def compare_presence(ours, puma)
      lost = @puma.ending == :reset && (ours.nil? || !ours.apps?)
      add(:missing, nil, *[ours, puma].map { |answer| answer && summary(answer) }) if (ours || puma) && !lost
      false
    end

    def compare_refusals(ours, puma)
      add(:refusal, nil, *[ours, puma].map { |answer| answer.apps? ? nil : summary(answer) }) if ours.apps? || puma.apps?
      [ours, puma].all? { |answer| answer.status == 500 && !answer.apps? } && ours["connection"] != "close"
    end

    def summary(answer) = [answer.status, answer.apps? ? "by the app" : answer.body[/\A[^\n]*/n]]

    def compare_responses(ours, puma)
      add(:status, nil, ours.status, puma.status) unless ours.status == puma.status
      add(:framing, nil, ours.framing, puma.framing) unless ours.framing == puma.framing
      add(:complete, nil, ours.complete, puma.complete) unless ours.complete == puma.complete
      compare_fields(ours, puma)
      compare_bodies(ours, puma)
    end

    def compare_fields(ours, puma)
      same = ours.body == puma.body
      ((ours.fields | puma.fields).map(&:first).uniq - (same ? ["x-request"] : ["x-request", "content-length"])).each do |name|
        values = [ours, puma].map { |answer| answer.fields.filter_map { |key, value| value if key == name } }
        add(:field, name, *values.map { |list| list unless list.empty? }) unless values.first == values.last
      end
    end

    def compare_bodies(ours, puma)
      return if ours.body == puma.body
      first, second = [ours, puma].map { |answer| lines(answer.body) if answer.complete }
      return add(:body, nil, ours.body, puma.body) unless first && second
      (first.keys | second.keys).each { |key| add(key.start_with?("rails ") ? :rails : :env, key.delete_prefix("rails "), first[key], second[key]) unless first[key] == second[key] }
    end

    # @return [Hash, nil] the lines of Apps::Echo or Apps::Rails
    def lines(body)
      pairs = body.split("\n").map { |line| line.match(LINES)&.captures }
      pairs.to_h { |name, value| [name, value.start_with?('"') ? value.undump : value] } if pairs.any? && pairs.all?
    end
  end
end
