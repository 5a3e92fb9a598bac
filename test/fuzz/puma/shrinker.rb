# frozen_string_literal: true

module NeverBlockPumaFuzz
  # Leaves parts out of a conversation while it still shows one of the differences.
  #
  #   smaller, dropped = Shrinker.new(command, conversation, differences).call
  class Shrinker
    # @param command [#unknown]
    # @param conversation [Conversation]
    # @param differences [Array<Comparison::Difference>]
    def initialize(command, conversation, differences)
      @command = command
      @conversation = conversation
      @signatures = differences.map(&:signature)
    end

    # Tries halves, quarters and so on, and then single parts.
    # @return [Array(Conversation, Array<Integer>)] the smallest one found, and the numbers of the parts left out
    def call
      dropped = []
      size = @conversation.parts.size
      while (size /= 2).positive?
        (0...@conversation.parts.size).each_slice(size) do |numbers|
          more = dropped | numbers
          dropped = more if more.size > dropped.size && more.size < @conversation.parts.size && shows?(more)
        end
      end
      [@conversation.without(dropped), dropped.sort]
    end

    private

    def shows?(dropped) = @signatures.intersect?(@command.unknown(@conversation.without(dropped)).map(&:signature))
  end
end
