# frozen_string_literal: true

# The code in a page of documentation. A block of Ruby that stands right after the
# comment `<!-- runnable -->` is a whole program:
#
#   NeverBlockTest::DocBlock.in("README.md").select(&:runnable?).each { |block| puts block.code }
#   NeverBlockTest::DocBlock.in("docs/deploy/nginx.md", "nginx").first.code
#
# Where a program has comments of the form `# => text`, its output is those texts,
# a line each, in this order.
module NeverBlockTest
  DocBlock = Struct.new(:page, :line, :code, :runnable) do
    # @param page [String] a path below the root of the project
    # @param language [String] as the block's fence says it
    # @return [Array<DocBlock>]
    def self.in(page, language = "ruby")
      lines = File.readlines(File.join(ROOT, page), chomp: true)
      starts = lines.each_index.select { |index| lines[index] == "```#{language}" }
      starts.map do |start|
        length = lines[(start + 1)..].index("```") or raise "#{page}:#{start + 1}: this block has no end"
        code = lines[start + 1, length].join("\n")
        new(page, start + 2, "#{code}\n", start > 0 && lines[start - 1] == "<!-- runnable -->")
      end
    end

    # @return [Boolean] whether it is a whole program
    def runnable? = runnable

    # @return [String] the standard output that its comments announce, nil if there are none
    def expected
      texts = code.scan(/# => (.*)$/).flatten
      texts.map { |text| "#{text}\n" }.join if texts.any?
    end

    # @return [String] such as "README.md:12"
    def to_s = "#{page}:#{line}"
  end
end
