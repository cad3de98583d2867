from cadmus_llm.cli import main

main()
